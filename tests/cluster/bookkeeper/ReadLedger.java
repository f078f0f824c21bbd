import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Opens ledgers with BookKeeper's ordinary client, as a reader with recovery does, and reads every entry.
 *
 * <p>Prints "ledger ID read N" if each of the N entries is what WriteLedger.java wrote. Arguments: metadata service URI, and for
 * each ledger its id, digest type and password.
 */
public final class ReadLedger {
    private ReadLedger() {}

    public static void main(String[] args) {
        try {
            ClientConfiguration conf = new ClientConfiguration();
            conf.setMetadataServiceUri(args[0]);
            BookKeeper client = new BookKeeper(conf);
            for (int at = 1; at < args.length; at += 3) {
                read(client, Long.parseLong(args[at]), args[at + 1], args[at + 2]);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void read(BookKeeper client, long id, String digest, String password) throws Exception {
        LedgerHandle ledger = client.openLedger(
            id, BookKeeper.DigestType.valueOf(digest), password.getBytes(StandardCharsets.UTF_8));
        long last = ledger.getLastAddConfirmed();
        Enumeration<LedgerEntry> entries = ledger.readEntries(0, last);
        long next = 0;
        while (entries.hasMoreElements()) {
            String said = new String(entries.nextElement().getEntry(), StandardCharsets.UTF_8);
            if (!said.equals("e" + next++)) {
                throw new IllegalStateException("ledger " + id + " has " + said);
            }
        }
        System.out.println("ledger " + id + " read " + next);
    }
}
