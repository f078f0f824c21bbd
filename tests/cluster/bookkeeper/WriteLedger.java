import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Writes one ledger with BookKeeper's ordinary client and says its id: "ledger ID".
 *
 * <p>Arguments: metadata service URI, ensemble size, write quorum, ack quorum, digest type, password, number of entries, and
 * "closed" or "open" (an open ledger is left as by a writer that died). Run from source: java -cp 'lib/*' WriteLedger.java ...
 */
public final class WriteLedger {
    private WriteLedger() {}

    public static void main(String[] args) {
        try {
            write(args);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // an open ledger stays open, and no thread keeps us
    }

    private static void write(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        BookKeeper client = new BookKeeper(conf);
        LedgerHandle ledger = client.createLedger(
            Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]),
            BookKeeper.DigestType.valueOf(args[4]), args[5].getBytes(StandardCharsets.UTF_8),
            Map.of("application", "tests".getBytes(StandardCharsets.UTF_8)));
        int entries = Integer.parseInt(args[6]);
        for (int entry = 0; entry < entries; entry++) {
            ledger.addEntry(("e" + entry).getBytes(StandardCharsets.UTF_8));
        }
        System.out.println("ledger " + ledger.getId());
        if (args[7].equals("closed")) {
            ledger.close();
            client.close();
        }
    }
}
