"""Make report.html: the report's sentences, pictures, and the findings as data for a script.

`contents` is what a page is made from, `page_view` what its template shows, `rendering` the file.
"""
