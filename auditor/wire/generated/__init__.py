"""Generated protobuf classes, checked in (see proto/README.md). They never leave `auditor.wire`."""
