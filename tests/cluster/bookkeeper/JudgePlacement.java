import io.netty.util.HashedWheelTimer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.bookkeeper.client.EnsemblePlacementPolicy;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.feature.SettableFeatureProvider;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.net.DNSToSwitchMapping;
import org.apache.bookkeeper.proto.BookieAddressResolver;
import org.apache.bookkeeper.stats.NullStatsLogger;

/**
 * Asks the real placement policies. Each line of standard input is a question of tab-separated fields:
 * policy class, settings (k=v), locations (bookie=location), writable, read-only, ensemble, write quorum, ack quorum; lists
 * have spaces between. Each gets its own policy and one line: "answer " and the adherence or the exception's class.
 */
public class JudgePlacement {
    private static final HashedWheelTimer TIMER = new HashedWheelTimer();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println("answer " + answer(line.split("\t", -1)));
        }
        System.out.flush();
        System.exit(0);
    }

    private static String answer(String[] fields) throws Exception {
        Map<String, String> locations = pairs(fields[2]);
        Set<BookieId> writable = new HashSet<>(bookies(fields[3]));
        Set<BookieId> readonly = new HashSet<>(bookies(fields[4]));
        List<BookieId> all = new ArrayList<>(writable);
        all.addAll(readonly);
        Map<BookieId, String> addresses = new HashMap<>();
        Map<String, String> locationOf = new HashMap<>();
        for (BookieId bookie : all) {
            String address = "127.0.1." + (addresses.size() + 1);
            addresses.put(bookie, address);
            locationOf.put(address, locations.get(bookie.toString()));
        }
        BookieAddressResolver resolver = bookie -> {
            if (!addresses.containsKey(bookie)) {
                throw new BookieAddressResolver.BookieIdNotResolvedException(bookie, new Exception("not registered"));
            }
            return new BookieSocketAddress(addresses.get(bookie), 3181);
        };
        ClientConfiguration conf = new ClientConfiguration();
        pairs(fields[1]).forEach(conf::setProperty);
        Constructor<?> constructor = Class.forName(fields[0]).getDeclaredConstructor();
        constructor.setAccessible(true); // as BookKeeper makes them by reflection: not all are public
        EnsemblePlacementPolicy policy = (EnsemblePlacementPolicy) constructor.newInstance();
        policy.initialize(conf, Optional.of(new Mapping(locationOf)), TIMER, new SettableFeatureProvider("", 0),
            NullStatsLogger.INSTANCE, resolver);
        try {
            policy.onClusterChanged(writable, readonly);
            int write = Integer.parseInt(fields[6]);
            return policy.isEnsembleAdheringToPlacementPolicy(bookies(fields[5]), write, Integer.parseInt(fields[7])).name();
        } catch (RuntimeException raised) {
            return raised.getClass().getSimpleName();
        } finally {
            policy.uninitalize();
        }
    }

    private static List<BookieId> bookies(String names) {
        List<BookieId> found = new ArrayList<>();
        for (String name : names.split(" ")) {
            if (!name.isEmpty()) {
                found.add(BookieId.parse(name));
            }
        }
        return found;
    }

    private static Map<String, String> pairs(String text) {
        Map<String, String> found = new HashMap<>();
        for (String pair : text.split(" ")) {
            if (!pair.isEmpty()) {
                found.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
            }
        }
        return found;
    }

    /** Locations by address; null for what has none, as a rack source that does not know a host answers. */
    private static final class Mapping implements DNSToSwitchMapping {
        private final Map<String, String> locations;

        Mapping(Map<String, String> locations) {
            this.locations = locations;
        }

        @Override
        public List<String> resolve(List<String> names) {
            List<String> found = new ArrayList<>();
            names.forEach(name -> found.add(locations.get(name)));
            return found;
        }

        @Override
        public boolean useHostName() {
            return false;
        }

        @Override
        public void reloadCachedMappings() {
        }
    }
}
