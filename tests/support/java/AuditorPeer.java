package org.apache.bookkeeper.replication;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.util.HashedWheelTimer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.EnsemblePlacementPolicy;
import org.apache.bookkeeper.common.util.ReflectionUtils;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.feature.SettableFeatureProvider;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.meta.UnderreplicatedLedger;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.net.DNSToSwitchMapping;
import org.apache.bookkeeper.proto.BookieAddressResolver;
import org.apache.bookkeeper.proto.BookkeeperInternalCallbacks.Processor;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

/**
 * BookKeeper's own auditor, asked line by line: a JSON command on stdin, a JSON answer on stdout, until stdin ends.
 *
 * <p>The checks and the policies are BookKeeper's classes as they are. What is added stands around them: the ledger manager
 * hands out only the ledgers that a command names (in their own ranges), with their marks, and it can stop between reading
 * metadata and handing it over. There is no election and no lost-bookie audit. Argument: the metadata service URI. In this package because both
 * checks have package-private constructors.
 */
public final class AuditorPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LOG_CHARS_MAX = 400;
    private static final PrintStream ANSWERS = System.out;
    private static final BufferedReader COMMANDS =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private static final List<ObjectNode> LOGGED = Collections.synchronizedList(new ArrayList<>());

    private final String metadataServiceUri;
    private final Map<String, Client> clients = new HashMap<>();
    private final Map<String, AuditorStats> gauges = new HashMap<>();
    private final ScheduledExecutorService scheduler = Executors.newScheduledThreadPool(1, AuditorPeer::daemon);
    private final HashedWheelTimer timer = new HashedWheelTimer(AuditorPeer::daemon);
    private ScheduledFuture<?> scheduled;
    private AtomicInteger starts;

    private AuditorPeer(String metadataServiceUri) {
        this.metadataServiceUri = metadataServiceUri;
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // the log; answers keep the real one
        keepLog();
        AuditorPeer peer = new AuditorPeer(args[0]);
        for (String line = COMMANDS.readLine(); line != null; line = COMMANDS.readLine()) {
            ObjectNode said;
            try {
                said = peer.answer(JSON.readTree(line));
            } catch (Exception e) {
                e.printStackTrace();
                said = JSON.createObjectNode().put("error", e.toString());
            }
            say(said);
        }
        Runtime.getRuntime().halt(0); // checks that never end have threads that never end
    }

    private ObjectNode answer(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "check":
                return check(command);
            case "schedule":
                return schedule(command);
            case "scheduled":
                Thread.sleep(command.get("wait_ms").asLong());
                return JSON.createObjectNode().put("starts", starts.get()).put("ended", scheduled.isDone());
            case "unschedule":
                return JSON.createObjectNode().put("cancelled", scheduled.cancel(false));
            case "mark":
                client(command).marks
                    .markLedgerUnderreplicated(command.get("ledger").asLong(), command.get("replica").asText());
                return JSON.createObjectNode();
            case "adherence":
                return adherence(command);
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }

    // The checks

    /** One run of one check, in a thread of its own, waited for at most `timeout_ms`. */
    private ObjectNode check(JsonNode command) throws Exception {
        AuditorStats stats = stats(command);
        AtomicBoolean shutdown = new AtomicBoolean();
        Client client = client(command);
        AuditorTask task = task(command, client, stats, shutdown);
        ObjectNode said = JSON.createObjectNode();
        LOGGED.clear();
        Thread.sleep(2); // the znode that says when a check ended counts milliseconds
        long began = System.currentTimeMillis();
        String[] threw = new String[1];
        Thread thread = daemon(() -> {
            try {
                task.runTask();
            } catch (Throwable e) {
                threw[0] = e.toString();
            }
        });
        thread.start();
        thread.join(command.get("timeout_ms").asLong());
        said.put("stuck", thread.isAlive());
        said.put("threw", threw[0]);
        said.put("finished", !thread.isAlive() && ended(command, client) >= began);
        said.put("asked_for_shutdown", shutdown.get());
        said.put("no_replica", stats.getNumLedgersHavingNoReplicaOfAnEntry().getSample());
        said.put("below_ack", stats.getNumLedgersHavingLessThanAQReplicasOfAnEntry().getSample());
        said.put("below_write", stats.getNumLedgersHavingLessThanWQReplicasOfAnEntry().getSample());
        said.put("placement_failed", stats.getNumLedgersNotAdheringToPlacementPolicy().getSample());
        said.put("placement_soft", stats.getNumLedgersSoftlyAdheringToPlacementPolicy().getSample());
        said.put("beyond_grace", stats.getNumUnderreplicatedLedgersElapsedRecoveryGracePeriod().getSample());
        ArrayNode log = said.putArray("log");
        synchronized (LOGGED) {
            LOGGED.forEach(log::add);
        }
        return said;
    }

    private long ended(JsonNode command, Client client) throws Exception {
        return isReplicas(command) ? client.marks.getReplicasCheckCTime() : client.marks.getPlacementPolicyCheckCTime();
    }

    /** The check as the auditor schedules it: at a fixed rate. */
    private ObjectNode schedule(JsonNode command) throws Exception {
        AuditorTask task = task(command, client(command), stats(command), new AtomicBoolean());
        AtomicInteger count = new AtomicInteger();
        starts = count;
        scheduled = scheduler.scheduleAtFixedRate(() -> {
            count.incrementAndGet();
            task.run();
        }, 0, command.get("period_ms").asLong(), TimeUnit.MILLISECONDS);
        return JSON.createObjectNode();
    }

    private AuditorTask task(JsonNode command, Client client, AuditorStats stats, AtomicBoolean shutdown) {
        LedgerManager ledgers = some(client.ledgers, ids(command), command.path("hold_reads").asBoolean());
        LedgerUnderreplicationManager marks = some(client.marks, ids(command));
        boolean pending = command.path("pending_audit").asBoolean();
        BiConsumer<AtomicBoolean, Throwable> hasAudit = (flag, error) -> flag.set(pending);
        AuditorTask.ShutdownTaskHandler end = () -> shutdown.set(true);
        return isReplicas(command)
            ? new AuditorReplicasCheckTask(client.conf, stats, client.admin, ledgers, marks, end, hasAudit)
            : new AuditorPlacementPolicyCheckTask(client.conf, stats, client.admin, ledgers, marks, end, hasAudit);
    }

    private static boolean isReplicas(JsonNode command) {
        return "replicas".equals(command.get("check").asText());
    }

    /** New gauges, or those that an earlier run of the same name left. */
    private AuditorStats stats(JsonNode command) {
        String name = command.path("gauges").asText("");
        AuditorStats made = new AuditorStats(NullStatsLogger.INSTANCE);
        return name.isEmpty() ? made : gauges.computeIfAbsent(name, ignored -> made);
    }

    private Client client(JsonNode command) throws Exception {
        String uri = command.path("uri").asText(metadataServiceUri);
        String key = uri + " " + command.path("conf") + " " + command.path("client").asText("");
        LocationsByAddress.now = new HashMap<>(texts(command.path("locations")));
        Client known = clients.get(key);
        if (known == null) {
            known = new Client(uri, texts(command.path("conf")));
            clients.put(key, known);
        }
        return known;
    }

    private static Set<Long> ids(JsonNode command) {
        Set<Long> ids = new HashSet<>();
        command.path("ledgers").forEach(id -> ids.add(id.asLong()));
        return ids;
    }

    /** The ledger manager, but for ledgers that are not named; with `holdReads` it waits for a line after each reading. */
    private static LedgerManager some(LedgerManager real, Set<Long> ids, boolean holdReads) {
        return (LedgerManager) Proxy.newProxyInstance(AuditorPeer.class.getClassLoader(),
            new Class<?>[] {LedgerManager.class}, (proxy, method, args) -> {
                if ("getLedgerRanges".equals(method.getName())) {
                    return only(real.getLedgerRanges((Long) args[0]), ids);
                }
                if ("asyncProcessLedgers".equals(method.getName())) {
                    args[0] = only(args[0], ids, (Integer) args[3]);
                }
                Object given = invoke(real, method, args);
                if (holdReads && "readLedgerMetadata".equals(method.getName())) {
                    Object read = ((CompletableFuture<?>) given).get();
                    say(JSON.createObjectNode().put("held", (Long) args[0]));
                    COMMANDS.readLine();
                    return CompletableFuture.completedFuture(read);
                }
                return given;
            });
    }

    /** The marks, but for those of ledgers that are not named. */
    private static LedgerUnderreplicationManager some(LedgerUnderreplicationManager real, Set<Long> ids) {
        return (LedgerUnderreplicationManager) Proxy.newProxyInstance(AuditorPeer.class.getClassLoader(),
            new Class<?>[] {LedgerUnderreplicationManager.class}, (proxy, method, args) -> {
                Object given = invoke(real, method, args);
                if (!"listLedgersToRereplicate".equals(method.getName())) {
                    return given;
                }
                List<Object> kept = new ArrayList<>();
                ((Iterator<?>) given).forEachRemaining(mark -> {
                    if (ids.contains(((UnderreplicatedLedger) mark).getLedgerId())) {
                        kept.add(mark);
                    }
                });
                return kept.iterator();
            });
    }

    private static Object invoke(Object real, Method method, Object[] args) throws Throwable {
        try {
            return method.invoke(real, args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    @SuppressWarnings("unchecked")
    private static Processor<Long> only(Object processor, Set<Long> ids, int success) {
        return (ledger, done) -> {
            if (ids.contains(ledger)) {
                ((Processor<Long>) processor).process(ledger, done);
            } else {
                done.processResult(success, null, null);
            }
        };
    }

    private static LedgerManager.LedgerRangeIterator only(LedgerManager.LedgerRangeIterator all, Set<Long> ids)
            throws java.io.IOException {
        List<LedgerManager.LedgerRange> kept = new ArrayList<>();
        while (all.hasNext()) {
            Set<Long> wanted = new HashSet<>(all.next().getLedgers());
            wanted.retainAll(ids);
            if (!wanted.isEmpty()) {
                kept.add(new LedgerManager.LedgerRange(wanted));
            }
        }
        Iterator<LedgerManager.LedgerRange> at = kept.iterator();
        return new LedgerManager.LedgerRangeIterator() {
            @Override
            public boolean hasNext() {
                return at.hasNext();
            }

            @Override
            public LedgerManager.LedgerRange next() {
                return at.next();
            }
        };
    }

    // The policies

    /**
     * What one policy class says of ensembles. Bookies have made-up addresses and the locations of the command; those that
     * were never writable nor read-only have no registration, so no address.
     */
    private ObjectNode adherence(JsonNode command) throws Exception {
        Map<String, BookieSocketAddress> addresses = new HashMap<>();
        Map<String, String> locations = new HashMap<>();
        texts(command.get("locations")).forEach((bookie, location) -> locations.put(address(addresses, bookie), location));
        LocationsByAddress.now = locations;
        Set<String> registered = new HashSet<>();
        command.get("writable").forEach(names -> names.forEach(name -> registered.add(name.asText())));
        command.get("readonly").forEach(name -> registered.add(name.asText()));
        ClientConfiguration conf = new ClientConfiguration();
        texts(command.get("conf")).forEach(conf::setProperty);
        EnsemblePlacementPolicy policy =
            ReflectionUtils.newInstance(command.get("policy").asText(), EnsemblePlacementPolicy.class);
        policy.initialize(conf, Optional.of(new LocationsByAddress()), timer, new SettableFeatureProvider("", 0),
            NullStatsLogger.INSTANCE, bookie -> {
                if (!registered.contains(bookie.getId())) {
                    throw new BookieAddressResolver.BookieIdNotResolvedException(bookie, null);
                }
                address(addresses, bookie.getId());
                return addresses.get(bookie.getId());
            });
        for (JsonNode writable : command.get("writable")) { // one after the other: each is a change of the cluster
            policy.onClusterChanged(new HashSet<>(bookies(writable)), new HashSet<>(bookies(command.get("readonly"))));
        }
        ObjectNode said = JSON.createObjectNode();
        ArrayNode rows = said.putArray("rows");
        for (JsonNode row : command.get("rows")) {
            rows.add(adherence(policy, bookies(row.get(0)), row.get(1).asInt(), row.get(2).asInt()));
        }
        policy.uninitalize();
        return said;
    }

    private static String adherence(EnsemblePlacementPolicy policy, List<BookieId> ensemble, int writeQuorum, int ackQuorum) {
        try {
            return policy.isEnsembleAdheringToPlacementPolicy(ensemble, writeQuorum, ackQuorum).toString();
        } catch (ArithmeticException e) {
            return "ArithmeticException";
        }
    }

    private static String address(Map<String, BookieSocketAddress> addresses, String bookie) {
        return addresses.computeIfAbsent(bookie, name -> new BookieSocketAddress("127.1.0." + (addresses.size() + 1), 3181))
            .getSocketAddress().getAddress().getHostAddress();
    }

    private static List<BookieId> bookies(JsonNode names) {
        List<BookieId> bookies = new ArrayList<>();
        names.forEach(name -> bookies.add(BookieId.parse(name.asText())));
        return bookies;
    }

    private static Map<String, String> texts(JsonNode fields) {
        Map<String, String> texts = new HashMap<>();
        fields.fields().forEachRemaining(field -> texts.put(field.getKey(), field.getValue().asText()));
        return texts;
    }

    // What is said

    private static void say(ObjectNode what) throws java.io.IOException {
        ANSWERS.println(JSON.writeValueAsString(what));
        ANSWERS.flush();
    }

    private static void keepLog() {
        AbstractAppender keeper = new AbstractAppender("kept", null, null, true, Property.EMPTY_ARRAY) {
            @Override
            public void append(LogEvent event) {
                String text = event.getMessage().getFormattedMessage();
                LOGGED.add(JSON.createObjectNode().put("chars", text.length())
                    .put("text", text.substring(0, Math.min(text.length(), LOG_CHARS_MAX))));
            }
        };
        keeper.start();
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        LoggerConfig ours = new LoggerConfig("org.apache.bookkeeper.replication", Level.INFO, false);
        ours.addAppender(keeper, Level.INFO, null);
        context.getConfiguration().addLogger(ours.getName(), ours);
        context.updateLoggers();
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    /** A client as the auditor makes it, and what it hands to its checks. */
    private static final class Client {
        final ServerConfiguration conf = new ServerConfiguration();
        final BookKeeperAdmin admin;
        final LedgerManager ledgers;
        final LedgerUnderreplicationManager marks;

        Client(String metadataServiceUri, Map<String, String> settings) throws Exception {
            conf.setMetadataServiceUri(metadataServiceUri);
            conf.setAllowLoopback(true);
            settings.forEach(conf::setProperty);
            BookKeeper client = Auditor.createBookKeeperClient(conf);
            admin = new BookKeeperAdmin(client, NullStatsLogger.INSTANCE, new ClientConfiguration(conf));
            LedgerManagerFactory factory = client.getLedgerManagerFactory();
            ledgers = factory.newLedgerManager();
            marks = factory.newLedgerUnderreplicationManager();
        }
    }

    /** The network locations of a command, by IP address; an address without one resolves to null. */
    public static final class LocationsByAddress implements DNSToSwitchMapping {
        static volatile Map<String, String> now = new HashMap<>();

        @Override
        public List<String> resolve(List<String> names) {
            List<String> found = new ArrayList<>();
            names.forEach(name -> found.add(now.get(name)));
            return found;
        }

        @Override
        public void reloadCachedMappings() {}

        @Override
        public boolean useHostName() {
            return false;
        }
    }
}
