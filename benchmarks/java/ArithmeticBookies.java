import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import java.util.zip.CRC32C;

/**
 * Bookies that store nothing: what they hold of each ledger follows from its id. They answer GET_BOOKIE_INFO,
 * GET_LIST_OF_ENTRIES_OF_LEDGER and READ_ENTRY of protocol version 3, each at a loopback port of its own.
 *
 * <p>Arguments: the number of bookies, one of how many ledgers is damaged, and how many microseconds a bookie takes for each
 * answer, one after the other (0: what the processor takes). Prints the ports. Each line on stdin is answered with the requests
 * so far: infos, lists, reads, bytes sent. Ends with stdin.
 *
 * <p>{@code benchmarks/arithmetic_cluster.py} has the same rules and says what they are.
 */
public final class ArithmeticBookies implements Runnable {
    private static final int READ_ENTRY = 1;
    private static final int GET_BOOKIE_INFO = 8;
    private static final int GET_LIST = 11;
    private static final int ENOLEDGER = 402;
    private static final int ENOENTRY = 403;
    private static final int BUFFER_BYTES = 1 << 16;
    /** What one answer takes at most: two groups, or an entry. */
    private static final int ANSWER_BYTES_MAX = 256;
    private static final int HEADER_BYTES = 64;
    private static final int GROUP_BYTES = 24;
    private static final byte[] NO_RESERVED = new byte[HEADER_BYTES - 8];
    private static final byte[] PAYLOAD = "payload.".getBytes();
    private static final long WAKE_MILLIS = 1;
    /** How late a bookie may be and make up for it: this machine may not wake it in time. */
    private static final long LATE_NANOS_MAX = 20_000_000;

    private static int bookies;
    private static long damagedEvery;
    private static long serviceNanos;
    private static final LongAdder INFOS = new LongAdder();
    private static final LongAdder LISTS = new LongAdder();
    private static final LongAdder READS = new LongAdder();
    private static final LongAdder BYTES = new LongAdder();

    private final Selector selector = Selector.open();
    private final Set<SelectionKey> busy = new HashSet<>();
    /** By bookie: when it will have given all its answers. Only the loop that a bookie belongs to uses its place. */
    private final long[] busyUntil;

    private ArithmeticBookies() throws IOException {
        busyUntil = new long[bookies];
        Arrays.fill(busyUntil, System.nanoTime());
    }

    public static void main(String[] args) throws Exception {
        bookies = Integer.parseInt(args[0]);
        damagedEvery = Long.parseLong(args[1]);
        serviceNanos = 1_000 * Long.parseLong(args[2]);
        ArithmeticBookies[] loops = new ArithmeticBookies[Runtime.getRuntime().availableProcessors()];
        for (int i = 0; i < loops.length; i++) {
            loops[i] = new ArithmeticBookies();
        }
        StringBuilder ports = new StringBuilder();
        for (int bookie = 0; bookie < bookies; bookie++) {
            ServerSocketChannel server = ServerSocketChannel.open();
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            server.configureBlocking(false);
            server.register(loops[bookie % loops.length].selector, SelectionKey.OP_ACCEPT, bookie);
            ports.append(bookie == 0 ? "" : " ").append(((InetSocketAddress) server.getLocalAddress()).getPort());
        }
        for (ArithmeticBookies loop : loops) {
            Thread thread = new Thread(loop, "bookies");
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println(ports);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println(INFOS.sum() + " " + LISTS.sum() + " " + READS.sum() + " " + BYTES.sum());
        }
    }

    /** One client's connection to one bookie. */
    private static final class Connection {
        final int bookie;
        final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER_BYTES);
        final ByteBuffer out = ByteBuffer.allocateDirect(BUFFER_BYTES);
        final CRC32C crc = new CRC32C();

        Connection(int bookie) {
            this.bookie = bookie;
        }
    }

    @Override
    public void run() {
        while (true) {
            try {
                if (busy.isEmpty()) {
                    selector.select(this::serve);
                } else {
                    selector.select(this::serve, WAKE_MILLIS);
                    Set.copyOf(busy).forEach(this::serve);
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private void serve(SelectionKey key) {
        try {
            if (key.channel() instanceof ServerSocketChannel server) {
                SocketChannel client = server.accept();
                if (client != null) {
                    client.configureBlocking(false);
                    client.setOption(StandardSocketOptions.TCP_NODELAY, true);
                    client.register(selector, SelectionKey.OP_READ, new Connection((Integer) key.attachment()));
                }
                return;
            }
            Connection connection = (Connection) key.attachment();
            SocketChannel client = (SocketChannel) key.channel();
            busy.remove(key);
            if (client.read(connection.in) < 0) {
                client.close();
                return;
            }
            connection.in.flip();
            boolean isSent = send(client, connection.out);
            while (isSent && answerSome(connection)) {
                isSent = send(client, connection.out);
            }
            if (connection.in.hasRemaining() && isBusy(connection.bookie)) {
                busy.add(key);
            }
            connection.in.compact();
            key.interestOps(isSent ? SelectionKey.OP_READ : SelectionKey.OP_READ | SelectionKey.OP_WRITE);
        } catch (IOException error) {
            key.cancel();
            try {
                key.channel().close();
            } catch (IOException ignored) {
                // the client has gone
            }
        }
    }

    /** Returns whether everything was sent. What was not stays in the buffer. */
    private static boolean send(SocketChannel client, ByteBuffer out) throws IOException {
        out.flip();
        BYTES.add(client.write(out));
        boolean isSent = !out.hasRemaining();
        out.compact();
        return isSent;
    }

    /** Answers whole requests while there is room for the answers. Returns whether there was one. */
    private boolean answerSome(Connection connection) throws IOException {
        ByteBuffer in = connection.in;
        int start = in.position();
        while (in.remaining() >= 4 && connection.out.remaining() >= ANSWER_BYTES_MAX) {
            int end = in.position() + 4 + in.getInt(in.position());
            if (end > in.limit() || isBusy(connection.bookie)) {
                break;
            }
            if (serviceNanos > 0) {
                long begins = Math.max(busyUntil[connection.bookie], System.nanoTime() - LATE_NANOS_MAX);
                busyUntil[connection.bookie] = begins + serviceNanos;
            }
            in.position(in.position() + 4);
            answer(connection, end);
            in.position(end);
        }
        return in.position() > start;
    }

    private boolean isBusy(int bookie) {
        return serviceNanos > 0 && busyUntil[bookie] > System.nanoTime();
    }

    private static void answer(Connection connection, int end) throws IOException {
        ByteBuffer in = connection.in;
        long operation = 0;
        long txn = 0;
        long ledger = 0;
        long entry = 0;
        while (in.position() < end) {
            long field = varint(in) >>> 3;
            int length = (int) varint(in);
            int inner = in.position() + length;
            while (in.position() < inner) {
                long tag = varint(in);
                long value = varint(in);
                if (field == 1 && tag == 0x10) {
                    operation = value;
                } else if (field == 1 && tag == 0x18) {
                    txn = value;
                } else if (field != 1 && tag == 0x08) {
                    ledger = value;
                } else if (field != 1 && tag == 0x10) {
                    entry = value;
                }
            }
        }
        ByteBuffer out = connection.out;
        int start = out.position();
        out.putInt(0);
        out.put((byte) 0x0a).put((byte) (5 + size(txn)));
        out.put((byte) 0x08).put((byte) 3).put((byte) 0x10).put((byte) operation).put((byte) 0x18);
        put(out, txn);
        if (operation == GET_LIST) {
            LISTS.increment();
            putList(connection, ledger);
        } else if (operation == READ_ENTRY) {
            READS.increment();
            putEntry(connection, ledger, entry);
        } else if (operation == GET_BOOKIE_INFO) {
            INFOS.increment();
            putStatus(out, 0, 105);
            out.put((byte) 10).put((byte) 0x08).put((byte) 0);
            out.put((byte) 0x10);
            put(out, 1L << 20);
            out.put((byte) 0x18);
            put(out, 1L << 20);
        } else {
            throw new IOException("operation " + operation + " is not answered");
        }
        out.putInt(start, out.position() - start - 4);
    }

    /** Puts the outer status, and the tag of the operation's message. */
    private static void putStatus(ByteBuffer out, int status, int field) {
        out.put((byte) 0x10);
        put(out, status);
        put(out, field << 3 | 2);
    }

    private static void putList(Connection connection, long ledger) {
        ByteBuffer out = connection.out;
        long last = last(ledger);
        long lost = lostFrom(ledger, position(connection.bookie, ledger));
        if (lost == -1) {
            putStatus(out, ENOLEDGER, 108);
            out.put((byte) (4 + size(ledger))).put((byte) 0x08);
            put(out, ENOLEDGER);
            out.put((byte) 0x10);
            put(out, ledger);
            return;
        }
        long again = lostUntil(ledger, lost) + 1;
        int groups = (lost > 0 ? 1 : 0) + (again <= last ? 1 : 0);
        int bytes = HEADER_BYTES + GROUP_BYTES * groups;
        putStatus(out, 0, 108);
        put(out, 3 + size(ledger) + 1 + size(bytes) + bytes);
        out.put((byte) 0x08).put((byte) 0).put((byte) 0x10);
        put(out, ledger);
        out.put((byte) 0x1a);
        put(out, bytes);
        out.putInt(0).putInt(groups).put(NO_RESERVED);
        if (lost > 0) {
            putRun(out, 0, lost - 1);
        }
        if (again <= last) {
            putRun(out, again, last);
        }
    }

    private static void putRun(ByteBuffer out, long first, long last) {
        out.putLong(first).putLong(first).putInt((int) (last - first + 1)).putInt(0);
    }

    private static void putEntry(Connection connection, long ledger, long entry) {
        ByteBuffer out = connection.out;
        long lost = lostFrom(ledger, position(connection.bookie, ledger));
        int status = lost == -1 ? ENOLEDGER : 0;
        if (status == 0 && (entry > last(ledger) || entry >= lost && entry <= lostUntil(ledger, lost))) {
            status = ENOENTRY;
        }
        int body = status == 0 ? 36 + PAYLOAD.length : 0;
        putStatus(out, status, 100);
        put(out, 1 + size(status) + 1 + size(ledger) + 1 + size(entry) + (body > 0 ? 2 + body : 0));
        out.put((byte) 0x08);
        put(out, status);
        out.put((byte) 0x10);
        put(out, ledger);
        out.put((byte) 0x18);
        put(out, entry);
        if (body > 0) {
            out.put((byte) 0x22).put((byte) body);
            int start = out.position();
            out.putLong(ledger).putLong(entry).putLong(entry - 1).putLong(PAYLOAD.length * (entry + 1));
            connection.crc.reset();
            connection.crc.update(out.duplicate().flip().position(start));
            connection.crc.update(PAYLOAD);
            out.putInt((int) connection.crc.getValue()).put(PAYLOAD);
        }
    }

    private static long last(long ledger) {
        return 1_000 + ledger % 100_000;
    }

    private static int position(int bookie, long ledger) {
        return (int) Math.floorMod(bookie - ledger, (long) bookies);
    }

    /** The first entry that the bookie at a position lost; -1 for the whole ledger, above all entries for none. */
    private static long lostFrom(long ledger, int position) {
        if (position > 2) {
            return -1;
        }
        long last = last(ledger);
        if ((ledger + 1) % damagedEvery != 0) {
            return last + 1;
        }
        return switch ((int) (ledger / damagedEvery % 5)) {
            case 0 -> position == 0 ? -1 : last + 1;
            case 1 -> position == 1 ? last / 2 : last + 1;
            case 2 -> position == 2 ? last / 2 : last + 1;
            case 3 -> last / 2;
            default -> position == 0 ? last + 1 : 0;
        };
    }

    private static long lostUntil(long ledger, long lost) {
        boolean isTail = (ledger + 1) % damagedEvery == 0 && ledger / damagedEvery % 5 == 2;
        return isTail ? Math.max(lost, last(ledger)) : lost;
    }

    private static long varint(ByteBuffer in) {
        long value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = in.get();
            value |= (long) (next & 0x7f) << shift;
            if (next >= 0) {
                return value;
            }
        }
    }

    private static void put(ByteBuffer out, long value) {
        while ((value & ~0x7fL) != 0) {
            out.put((byte) (value | 0x80));
            value >>>= 7;
        }
        out.put((byte) value);
    }

    private static int size(long value) {
        return Math.max(1, (70 - Long.numberOfLeadingZeros(value)) / 7);
    }
}
