"""Read Pulsar's metadata: what topics, subscriptions and schemas reference, and who can read it.

`metadata` decodes znodes, `topic_store` reads them, `reference_rows` keeps what they reference,
`readability` says how far a topic can be read. `auditor.model.topic` has the nouns.
"""
