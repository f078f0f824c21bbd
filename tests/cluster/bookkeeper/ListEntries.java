import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.channel.nio.NioEventLoopGroup;
import java.util.concurrent.Executors;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieClientImpl;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;

/** BookKeeper's own client asks HOST:PORT for its disk and for lists: prints `info CODE`, then `LEDGER TOTAL HEX` for each ledger. */
public class ListEntries {
    public static void main(String[] args) throws Exception {
        BookieId bookie = BookieId.parse(args[0]);
        NioEventLoopGroup group = new NioEventLoopGroup(1);
        OrderedExecutor executor = OrderedExecutor.newBuilder().numThreads(1).build();
        ScheduledExecutorService scheduler = Executors.newSingleThreadScheduledExecutor();
        ClientConfiguration configuration = new ClientConfiguration();
        configuration.setUseV2WireProtocol(false);
        BookieClientImpl client = new BookieClientImpl(configuration, group, UnpooledByteBufAllocator.DEFAULT, executor, scheduler,
                NullStatsLogger.INSTANCE, BookieSocketAddress.LEGACY_BOOKIEID_RESOLVER);
        CompletableFuture<Integer> info = new CompletableFuture<>();
        client.getBookieInfo(bookie, 3, (rc, what, ctx) -> info.complete(what.getTotalDiskSpace() > 0 ? rc : -1), null);
        System.out.println("info " + info.get(30, TimeUnit.SECONDS));
        for (int i = 1; i < args.length; i++) {
            long ledger = Long.parseLong(args[i]);
            AvailabilityOfEntriesOfLedger list = client.getListOfEntriesOfLedger(bookie, ledger).get(30, TimeUnit.SECONDS);
            StringBuilder hex = new StringBuilder();
            for (byte one : list.serializeStateOfEntriesOfLedger()) {
                hex.append(String.format("%02x", one));
            }
            System.out.println(ledger + " " + list.getTotalNumOfAvailableEntries() + " " + hex);
        }
        client.close();
        scheduler.shutdownNow();
        executor.shutdown();
        group.shutdownGracefully(0, 1, TimeUnit.SECONDS);
    }
}
