import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Writes ledger after ledger with BookKeeper's ordinary client, and reads what was acknowledged when it is told to.
 *
 * <p>Arguments: metadata service URI, ensemble size, write quorum, ack quorum, entries of a ledger, and the pause between two
 * entries in ms. Commands on stdin, each answered by one line: "read" by "read COUNT unavailable COUNT REASON", and "end" by
 * "written COUNT refused COUNT REASON". Run from source: java -cp 'lib/*' KeepWriting.java ...
 */
public final class KeepWriting {
    private static final byte[] PASSWORD = new byte[0];
    private static final Map<Long, Long> ACKNOWLEDGED = new ConcurrentSkipListMap<>();
    private static volatile boolean isEnding;
    private static volatile long written;
    private static volatile long refused;
    private static volatile String reason = "-";

    private KeepWriting() {}

    public static void main(String[] args) {
        try {
            serve(args);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void serve(String[] args) throws Exception {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri(args[0]);
        BookKeeper client = new BookKeeper(conf);
        Thread writer = new Thread(() -> write(client, args));
        writer.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            if (command.equals("read")) {
                System.out.println(readAll(client));
            } else {
                isEnding = true;
                writer.join();
                System.out.println("written " + written + " refused " + refused + " " + reason);
            }
            System.out.flush();
        }
    }

    private static void write(BookKeeper client, String[] args) {
        int entries = Integer.parseInt(args[4]);
        while (!isEnding) {
            try {
                LedgerHandle ledger = client.createLedger(
                    Integer.parseInt(args[1]), Integer.parseInt(args[2]), Integer.parseInt(args[3]),
                    BookKeeper.DigestType.CRC32C, PASSWORD);
                for (int number = 0; number < entries && !isEnding; number++) {
                    long entry = ledger.addEntry(("entry " + number).getBytes(StandardCharsets.UTF_8));
                    ACKNOWLEDGED.put(ledger.getId(), entry);
                    written++;
                    Thread.sleep(Long.parseLong(args[5]));
                }
                ledger.close();
            } catch (Exception error) {
                refused++;
                reason = String.valueOf(error).replace('\n', ' ');
            }
        }
    }

    private static String readAll(BookKeeper client) {
        long read = 0;
        long unavailable = 0;
        String why = "-";
        for (Map.Entry<Long, Long> ledger : new TreeMap<>(ACKNOWLEDGED).entrySet()) {
            try {
                LedgerHandle handle = client.openLedgerNoRecovery(
                    ledger.getKey(), BookKeeper.DigestType.CRC32C, PASSWORD);
                var found = handle.readUnconfirmedEntries(0, ledger.getValue());
                while (found.hasMoreElements()) {
                    found.nextElement().getEntry();
                    read++;
                }
                handle.close();
            } catch (Exception error) {
                unavailable++;
                why = String.valueOf(error).replace('\n', ' ');
            }
        }
        return "read " + read + " unavailable " + unavailable + " " + why;
    }
}
