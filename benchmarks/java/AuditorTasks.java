package org.apache.bookkeeper.replication;

import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.stats.NullStatsLogger;

/**
 * Runs the two checks of BookKeeper's own auditor once each, without an election and without its lost-bookie audit: no ledger
 * is marked. Prints a line for each task with its seconds, and one with the gauges it left.
 *
 * <p>Argument: the metadata service URI. In this package because both tasks have package-private constructors.
 */
public final class AuditorTasks {
    private AuditorTasks() {}

    public static void main(String[] args) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri(args[0]);
        conf.setAllowLoopback(true);
        conf.setMinNumRacksPerWriteQuorum(1); // one machine is one rack: nothing to log about placement
        AuditorStats stats = new AuditorStats(NullStatsLogger.INSTANCE);
        BookKeeper client = Auditor.createBookKeeperClient(conf);
        BookKeeperAdmin admin = new BookKeeperAdmin(client, NullStatsLogger.INSTANCE, new ClientConfiguration(conf));
        LedgerManagerFactory factory = client.getLedgerManagerFactory();
        LedgerManager ledgers = factory.newLedgerManager();
        LedgerUnderreplicationManager marks = factory.newLedgerUnderreplicationManager();
        long began = System.currentTimeMillis();
        run("replicas", new AuditorReplicasCheckTask(conf, stats, admin, ledgers, marks, AuditorTasks::end,
            (busy, error) -> busy.set(false)));
        AuditorPlacementPolicyCheckTask placement = new AuditorPlacementPolicyCheckTask(conf, stats, admin, ledgers, marks,
            AuditorTasks::end, (busy, error) -> busy.set(false));
        run("placement", placement);
        // A task that gave up says so only in the log; one that came to its end has dated itself in ZooKeeper.
        System.out.printf("finished replicas=%s placement=%s closed_ledgers=%s%n", marks.getReplicasCheckCTime() >= began,
            marks.getPlacementPolicyCheckCTime() >= began,
            placement.getNumOfClosedLedgersAuditedInPlacementPolicyCheck().get());
        System.out.printf("gauges no_replica=%s below_ack_quorum=%s below_write_quorum=%s placement_failed=%s%n",
            stats.getNumLedgersHavingNoReplicaOfAnEntry().getSample(),
            stats.getNumLedgersHavingLessThanAQReplicasOfAnEntry().getSample(),
            stats.getNumLedgersHavingLessThanWQReplicasOfAnEntry().getSample(),
            stats.getNumLedgersNotAdheringToPlacementPolicy().getSample());
        System.out.flush();
        Runtime.getRuntime().halt(0); // what was measured is over; closing sessions in order is not part of it
    }

    private static void run(String name, AuditorTask task) {
        long began = System.nanoTime();
        task.runTask();
        long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        System.out.printf("task %s seconds=%.3f%n", name, ms / 1000.0);
    }

    /** What a task calls that wants the whole auditor to end: the run is no measurement then. */
    private static void end() {
        System.err.println("a task asked for the auditor's shutdown");
        Runtime.getRuntime().halt(3);
    }
}
