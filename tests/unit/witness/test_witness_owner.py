"""The owner of a ledger, from its custom metadata."""

from auditor.model.finding_record import Owner
from auditor.model.ledger import LedgerMetadata, LedgerState, Segment
from auditor.witness.pulsar_commands import TEXT_CHARS_MAX, owner_of


def _with(*pairs: tuple[str, bytes]) -> LedgerMetadata:
    return LedgerMetadata(
        3, LedgerState.CLOSED, 1, 1, 1, 0, 1, (Segment(0, ("b1",)),), custom_metadata=pairs
    )


def test_a_topics_ledger_is_named_by_its_managed_ledger() -> None:
    """application, component and the managed ledger's name, as Pulsar writes them."""
    metadata = _with(
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", b"t/ns/persistent/orders"),
    )
    assert Owner("pulsar", "managed-ledger", "t/ns/persistent/orders") == owner_of(metadata)


def test_a_cursors_ledger_names_its_cursor_too() -> None:
    """A cursor's ledger belongs to a topic and to a subscription."""
    metadata = _with(
        ("application", b"pulsar"),
        ("pulsar/managed-ledger", b"t/ns/persistent/orders"),
        ("pulsar/cursor", b"billing"),
    )
    owner = owner_of(metadata)
    assert owner is not None
    assert "t/ns/persistent/orders cursor billing" == owner.name


def test_schema_and_compacted_ledgers_have_names_too() -> None:
    """The name is that of whichever known key is there."""
    assert "t/ns/orders" == (owner_of(_with(("pulsar/schemaId", b"t/ns/orders"))) or Owner()).name
    assert (
        "persistent://t/ns/orders"
        == (owner_of(_with(("pulsar/compactedTopic", b"persistent://t/ns/orders"))) or Owner()).name
    )


def test_a_ledger_without_known_keys_has_no_owner() -> None:
    """Other custom metadata is not interpreted. Metadata that could not be decoded gives no
    owner.
    """
    assert owner_of(_with(("colour", b"blue"))) is None
    assert owner_of(_with()) is None
    assert owner_of(None) is None


def test_what_is_no_text_or_too_long_is_shown_bounded() -> None:
    """Anybody may write anything into custom metadata. It must not fill the report."""
    owner = owner_of(_with(("application", b"\xff" * 10_000)))
    assert owner is not None
    assert TEXT_CHARS_MAX == len(owner.application or "")
