import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.mledger.LedgerOffloader;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.common.policies.data.OffloadPoliciesImpl;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;

/**
 * What the tests have Pulsar's own libraries do, in one JVM: a command a line on stdin, an answer a line on stdout
 * (`ok …` or `error …`). Arguments: the broker's service URL, ZooKeeper's HOST:PORT.
 */
public final class PulsarDriver {
    private static final int ENTRIES_A_LEDGER = 20;
    /** Tries to offload, each 100 ms after the one before: half a minute. */
    private static final int OFFLOAD_TRIES_MAX = 300;
    private static final PrintStream ANSWERS = System.out;
    private final String zookeeper;
    private final PulsarClient client;
    private final BookKeeper bookkeeper;

    private PulsarDriver(String broker, String zookeeper) throws Exception {
        this.zookeeper = zookeeper;
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + zookeeper + "/ledgers");
        bookkeeper = new BookKeeper(conf);
        client = PulsarClient.builder().serviceUrl(broker).ioThreads(1).listenerThreads(1).statsInterval(0, TimeUnit.SECONDS).build();
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // what is logged is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PulsarDriver driver = new PulsarDriver(args[0], args[1]);
        ANSWERS.println("ok ready");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = "ok " + driver.run(line.split(" "));
            } catch (Throwable error) {
                error.printStackTrace();
                answer = "error " + error.toString().replace('\n', ' ');
            }
            ANSWERS.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    private String run(String[] words) throws Exception {
        switch (words[0]) {
            case "produce":
                return produce(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), options(words, 4));
            case "acknowledge":
                return acknowledge(words[1], words[2], Arrays.asList(words[3].split(",")));
            case "read":
                return read(words[1], Integer.parseInt(words[2]), words.length > 3);
            case "receive":
                return receive(words[1], words[2], Integer.parseInt(words[3]));
            case "manage":
                return manage(words[1], words[2], Integer.parseInt(words[3]), words.length > 4);
            case "strand":
                return strand(words[1], Integer.parseInt(words[2]));
            case "unindex":
                return unindex(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]));
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private static Map<String, String> options(String[] words, int first) {
        return Arrays.stream(words).skip(first).map(word -> word.split("=", 2)).collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
    }

    /** Produce COUNT messages of BYTES bytes, an entry each: as a producer NAME, with KEYS keys in turn, after DELAY ms. */
    private String produce(String topic, int count, int bytes, Map<String, String> options) throws Exception {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).enableBatching(false).blockIfQueueFull(true);
        if (options.containsKey("name")) {
            builder.producerName(options.get("name"));
        }
        int keys = Integer.parseInt(options.getOrDefault("keys", "0"));
        long delay = Long.parseLong(options.getOrDefault("delay", "0"));
        try (Producer<byte[]> producer = builder.create()) {
            for (int number = 0; number < count; number++) {
                TypedMessageBuilder<byte[]> message = producer.newMessage();
                message.value(ByteBuffer.allocate(Math.max(4, bytes)).putInt(number).array());
                if (keys > 0) {
                    message.key("k" + number % keys);
                }
                if (delay > 0) {
                    message.deliverAfter(delay, TimeUnit.MILLISECONDS);
                }
                message.sendAsync();
            }
            producer.flush();
        }
        return String.valueOf(count);
    }

    /** Receive from a shared subscription, without acknowledging, until nothing comes for TIMEOUT_MS; say how many came. */
    private String receive(String topic, String subscription, int timeoutMs) throws Exception {
        int count = 0;
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription)
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            while (consumer.receive(timeoutMs, TimeUnit.MILLISECONDS) != null) {
                count++;
            }
        }
        return String.valueOf(count);
    }

    /** Receive from the subscription's position on, and acknowledge the messages with these numbers, first is 0. */
    private String acknowledge(String topic, String subscription, List<String> numbers) throws Exception {
        int last = numbers.stream().mapToInt(Integer::parseInt).max().orElse(-1);
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription)
                .subscriptionType(SubscriptionType.Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int number = 0; number <= last; number++) {
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                if (numbers.contains(String.valueOf(number))) {
                    consumer.acknowledgeAsync(message).get(30, TimeUnit.SECONDS);
                }
            }
        }
        return String.valueOf(numbers.size());
    }

    /** Read from the first message on; say how many came, and `end` or `stalled` (nothing for TIMEOUT_MS). */
    private String read(String topic, int timeoutMs, boolean compacted) throws Exception {
        int count = 0;
        try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest)
                .readCompacted(compacted).create()) {
            while (reader.hasMessageAvailable()) {
                if (reader.readNext(timeoutMs, TimeUnit.MILLISECONDS) == null) {
                    return count + " stalled";
                }
                count++;
            }
        }
        return count + " end";
    }

    /**
     * Write a managed ledger NAME as a broker with this compression does, with a subscription `half` in its middle; offload
     * all but its newest ledger on request. Print its data ledgers.
     */
    private String manage(String name, String compression, int entries, boolean offload) throws Exception {
        ManagedLedgerFactoryConfig factoryConfig = new ManagedLedgerFactoryConfig();
        factoryConfig.setManagedLedgerInfoCompressionType(compression);
        compressAnySize(factoryConfig, "setManagedLedgerInfoCompressionThresholdInBytes");
        factoryConfig.setManagedCursorInfoCompressionType(compression);
        compressAnySize(factoryConfig, "setManagedCursorInfoCompressionThresholdInBytes");
        MetadataStoreExtended store =
            MetadataStoreExtended.create("zk:" + zookeeper, MetadataStoreConfig.builder().metadataStoreName("driver").build());
        ManagedLedgerFactoryImpl factory = new ManagedLedgerFactoryImpl(store, bookkeeper, factoryConfig);
        try {
            return write(factory, name, entries, offload);
        } finally {
            factory.shutdown();
            store.close();
        }
    }

    /** Set a threshold to 0 by its setter. Pulsar 3.0 has neither: it compresses metadata of any size. */
    private static void compressAnySize(ManagedLedgerFactoryConfig config, String setter) throws ReflectiveOperationException {
        for (Method method : ManagedLedgerFactoryConfig.class.getMethods()) {
            if (method.getName().equals(setter)) {
                method.invoke(config, 0);
            }
        }
    }

    /** A ledger that was closed behind our back may be offloaded already: then wait for that to end. */
    private static void offloadWhenFree(ManagedLedger ledger, Position to) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                ledger.offloadPrefix(to);
                return;
            } catch (ManagedLedgerException.OffloadInProgressException busy) {
                if (tries == OFFLOAD_TRIES_MAX) {
                    throw busy;
                }
                Thread.sleep(100);
            }
        }
    }

    private static String write(ManagedLedgerFactoryImpl factory, String name, int entries, boolean offload) throws Exception {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(3).setWriteQuorumSize(2).setAckQuorumSize(2);
        config.setMaxEntriesPerLedger(ENTRIES_A_LEDGER).setMinimumRolloverTime(0, TimeUnit.MILLISECONDS);
        config.setRetentionTime(-1, TimeUnit.SECONDS).setRetentionSizeInMB(-1);
        config.setDigestType(DigestType.CRC32C).setPassword("");
        if (offload) {
            config.setLedgerOffloader(new MemoryOffloader());
        }
        ManagedLedger ledger = factory.open(name, config);
        ManagedCursor half = ledger.openCursor("half");
        List<Position> written = new ArrayList<>();
        for (int entry = 0; entry < entries; entry++) {
            written.add(ledger.addEntry(("e" + entry).getBytes(StandardCharsets.UTF_8)));
        }
        half.markDelete(written.get(entries / 2));
        if (offload) {
            offloadWhenFree(ledger, written.get(entries - 1));
            CompletableFuture<Object> trimmed = new CompletableFuture<>();
            ledger.trimConsumedLedgersInBackground(trimmed);
            trimmed.get(30, TimeUnit.SECONDS);
        }
        ledger.close();
        StringBuilder said = new StringBuilder();
        written.stream().map(Position::getLedgerId).distinct().forEach(id -> said.append(said.length() > 0 ? "," : "").append(id));
        return said.toString();
    }

    /** Write a ledger as a broker does that dies before it adds it to the topic's ledgers. Say its id. */
    private String strand(String name, int entries) throws Exception {
        Map<String, byte[]> metadata = Map.of("application", bytes("pulsar"), "component", bytes("managed-ledger"),
            "pulsar/managed-ledger", bytes(name));
        LedgerHandle handle = bookkeeper.createLedger(3, 2, 2, BookKeeper.DigestType.CRC32C, new byte[0], metadata);
        for (int entry = 0; entry < entries; entry++) {
            handle.addEntry(bytes("e" + entry));
        }
        handle.close();
        return String.valueOf(handle.getId());
    }

    /** Remove the entries FIRST to LAST of a ledger from the index of a stopped bookie. Say how many there were. */
    private static String unindex(String directory, long ledger, long first, long last) throws Exception {
        int removed = 0;
        try (Options options = new Options(); RocksDB index = RocksDB.open(options, directory)) {
            try (RocksIterator at = index.newIterator()) {
                for (at.seek(key(ledger, first)); at.isValid(); at.next()) {
                    ByteBuffer key = ByteBuffer.wrap(at.key());
                    if (key.getLong() != ledger || key.getLong() > last) {
                        break;
                    }
                    index.delete(at.key());
                    removed++;
                }
                at.status();
            }
        }
        return String.valueOf(removed);
    }

    private static byte[] key(long ledger, long entry) {
        return ByteBuffer.allocate(16).putLong(ledger).putLong(entry).array();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Long-term storage that reads each ledger to its end and keeps only how many entries it had. */
    private static final class MemoryOffloader implements LedgerOffloader {
        private final Map<UUID, Long> stored = new ConcurrentHashMap<>();

        @Override
        public String getOffloadDriverName() {
            return "memory";
        }

        @Override
        public CompletableFuture<Void> offload(ReadHandle ledger, UUID id, Map<String, String> metadata) {
            return ledger.readAsync(0, ledger.getLastAddConfirmed()).thenAccept(entries -> {
                try (LedgerEntries all = entries) {
                    stored.put(id, ledger.getLastAddConfirmed() + 1);
                }
            });
        }

        @Override
        public CompletableFuture<ReadHandle> readOffloaded(long ledger, UUID id, Map<String, String> metadata) {
            return CompletableFuture.failedFuture(new UnsupportedOperationException("this storage is never read"));
        }

        @Override
        public CompletableFuture<Void> deleteOffloaded(long ledger, UUID id, Map<String, String> metadata) {
            stored.remove(id);
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public OffloadPoliciesImpl getOffloadPolicies() {
            OffloadPoliciesImpl policies = new OffloadPoliciesImpl();
            policies.setManagedLedgerOffloadDriver("memory");
            policies.setManagedLedgerOffloadDeletionLagInMillis(0L);
            policies.setManagedLedgerOffloadThresholdInBytes(0L);
            return policies;
        }

        @Override
        public void close() {
            stored.clear();
        }
    }
}
