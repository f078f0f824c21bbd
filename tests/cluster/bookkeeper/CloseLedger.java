import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteAdvHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Closes a ledger in one of the ways in which its end and its entries differ, and says: "ledger ID end LAST length BYTES".
 *
 * <p>Arguments: metadata service URI, digest type, password, and one of
 * <ul>
 * <li>"deferred", ensemble size, write quorum, ack quorum, number of entries, how many of these force() covers: a writer with
 * DEFERRED_SYNC that closes without another force();
 * <li>"backwards", ensemble size, write quorum, ack quorum, number of entries: a writer that sets the entry ids itself and
 * sends the highest first;
 * <li>"recover", ledger id: a reader that recovers the ledger of a writer that died.
 * </ul>
 */
public final class CloseLedger {
    private CloseLedger() {}

    public static void main(String[] args) {
        try {
            ClientConfiguration conf = new ClientConfiguration();
            conf.setMetadataServiceUri(args[0]);
            run(new BookKeeper(conf), args);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void run(BookKeeper client, String[] args) throws Exception {
        DigestType digest = DigestType.valueOf(args[1]);
        byte[] password = args[2].getBytes(StandardCharsets.UTF_8);
        ReadHandle closed;
        if (args[3].equals("deferred")) {
            closed = writeDeferred(client, digest, password, args);
        } else if (args[3].equals("backwards")) {
            closed = writeBackwards(client, digest, password, args);
        } else {
            closed = client.newOpenLedgerOp().withLedgerId(Long.parseLong(args[4])).withDigestType(digest)
                .withPassword(password).withRecovery(true).execute().get();
        }
        System.out.println("ledger " + closed.getId() + " end " + closed.getLastAddConfirmed() + " length " + closed.getLength());
    }

    private static ReadHandle writeDeferred(BookKeeper client, DigestType digest, byte[] password, String[] args)
            throws Exception {
        WriteHandle ledger = client.newCreateLedgerOp()
            .withEnsembleSize(Integer.parseInt(args[4])).withWriteQuorumSize(Integer.parseInt(args[5]))
            .withAckQuorumSize(Integer.parseInt(args[6])).withDigestType(digest).withPassword(password)
            .withWriteFlags(EnumSet.of(WriteFlag.DEFERRED_SYNC))
            .withCustomMetadata(Map.of("application", "tests".getBytes(StandardCharsets.UTF_8)))
            .execute().get();
        int entries = Integer.parseInt(args[7]);
        int forced = Integer.parseInt(args[8]);
        for (int entry = 0; entry < entries; entry++) {
            ledger.append(String.format("e%019d", entry).getBytes(StandardCharsets.UTF_8));
            if (entry + 1 == forced) {
                ledger.force().get();
            }
        }
        ledger.close();
        return ledger;
    }

    private static ReadHandle writeBackwards(BookKeeper client, DigestType digest, byte[] password, String[] args)
            throws Exception {
        WriteAdvHandle ledger = client.newCreateLedgerOp()
            .withEnsembleSize(Integer.parseInt(args[4])).withWriteQuorumSize(Integer.parseInt(args[5]))
            .withAckQuorumSize(Integer.parseInt(args[6])).withDigestType(digest).withPassword(password)
            .withCustomMetadata(Map.of("application", "tests".getBytes(StandardCharsets.UTF_8)))
            .makeAdv().execute().get();
        List<CompletableFuture<Long>> sent = new ArrayList<>();
        for (int entry = Integer.parseInt(args[7]) - 1; entry >= 0; entry--) {
            sent.add(ledger.writeAsync(entry, String.format("e%019d", entry).getBytes(StandardCharsets.UTF_8)));
        }
        for (CompletableFuture<Long> one : sent) {
            one.get();
        }
        ledger.close();
        return ledger;
    }
}
