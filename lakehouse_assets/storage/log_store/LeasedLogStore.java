package lakehouse;

import io.delta.storage.AzureLogStore;
import io.delta.storage.GCSLogStore;
import io.delta.storage.HadoopFileSystemLogStore;
import io.delta.storage.LocalLogStore;
import io.delta.storage.LogStore;
import io.delta.storage.S3SingleDriverLogStore;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log where several machines write: a version is written once, and only under a lease that nobody has taken over.
 *
 * <p>Each commit of a table under lease states the lease's number. A version directly follows the one before it, so the number of
 * that one decides: if it is higher, another machine has taken the lease over, and this commit is refused. A version is created by
 * a hard link on a disk, by a conditional request on S3, and as Delta does it on other stores. If the answer to that request was
 * lost, the content of the version tells whose it is.
 *
 * <p>Python sets `lakehouse.lease./path` (of a disk) or `lakehouse.lease.scheme://…`: the number by which this process writes a
 * table; and `lakehouse.guarded.…`: a folder whose tables are written under a lease only.
 */
public final class LeasedLogStore extends HadoopFileSystemLogStore {
  private static final Pattern COMMIT = Pattern.compile("(\\d{20})\\.json");
  private static final Pattern NUMBER = Pattern.compile("\"lakehouseLease\"\\s*:\\s*\"?(\\d+)");
  private static final String INFO = "{\"commitInfo\":{";
  /** By log folder: a version, and the highest number up to it. */
  private static final Map<String, long[]> NUMBERS = new ConcurrentHashMap<>();

  public LeasedLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    Matcher name = COMMIT.matcher(path.getName());
    if (overwrite || !name.matches()) {
      storeOf(path).write(path, actions, overwrite, conf);
      return;
    }
    long version = Long.parseLong(name.group(1));
    String log = path.getParent().toString();
    String table = key(path.getParent().getParent());
    String text = System.getProperty("lakehouse.lease." + table);
    if (text == null && isGuarded(table)) {
      throw new IOException("LAKEHOUSE_LEASE_LOST: " + table + " is written under a lease, and this process holds none");
    }
    long number = text == null ? 0 : Long.parseLong(text);
    if (text != null) {
      long highest = highestNumber(path.getParent(), log, version - 1, conf);
      // A table that was absent at the takeover has no fence: if it is not this holder's own, the former one has created it.
      boolean isForeign = version > 0 && highest < number && System.getProperty("lakehouse.unfenced." + table) != null;
      if (highest > number || isForeign) {
        throw new IOException(
            "LAKEHOUSE_LEASE_LOST: " + table + " is written by another process under lease " + highest + "; this one had "
                + number);
      }
    }
    byte[] content = contentOf(actions, text);
    createOnce(path, content, conf);
    if (text != null) {
      NUMBERS.put(log, new long[] {version, number});
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) throws IOException {
    return storeOf(path).isPartialWriteVisible(path, conf);
  }

  private LogStore storeOf(Path path) {
    String scheme = path.toUri().getScheme() == null ? "file" : path.toUri().getScheme();
    switch (scheme) {
      case "s3a":
        return new S3SingleDriverLogStore(initHadoopConf());
      case "gs":
        return new GCSLogStore(initHadoopConf());
      case "abfs":
      case "abfss":
        return new AzureLogStore(initHadoopConf());
      default:
        return new LocalLogStore(initHadoopConf());
    }
  }

  private static boolean isOnDisk(Path path) {
    String scheme = path.toUri().getScheme();
    return scheme == null || scheme.equals("file");
  }

  private static String key(Path table) {
    return isOnDisk(table) ? table.toUri().getPath() : table.toString();
  }

  private static boolean isGuarded(String table) {
    int slash = table.lastIndexOf('/');
    return slash > 0 && System.getProperty("lakehouse.guarded." + table.substring(0, slash)) != null;
  }

  /** The highest number that any commit up to a version states. It only grows, so that the newest one states it. */
  private long highestNumber(Path folder, String log, long version, Configuration conf) throws IOException {
    long[] before = NUMBERS.getOrDefault(log, new long[] {-1, 0});
    for (long each = version; each == version || each > before[0]; each--) {
      byte[] content = each < 0 ? null : readAll(new Path(folder, String.format("%020d.json", each)), conf);
      if (content == null && each == version && version >= 0) {
        throw new IOException(log + " has no version " + version + ": the table was removed meanwhile");
      }
      if (content == null) {
        break; // the table's first version, or removed by the log's own clean-up
      }
      String lines = new String(content, StandardCharsets.UTF_8);
      Matcher number = NUMBER.matcher(lines.substring(0, Math.max(lines.indexOf('\n'), 0)));
      if (number.find()) {
        return Math.max(Long.parseLong(number.group(1)), before[1]);
      }
    }
    return before[1];
  }

  private static byte[] contentOf(Iterator<String> actions, String number) {
    StringBuilder lines = new StringBuilder();
    while (actions.hasNext()) {
      String action = actions.next();
      if (number != null && action.startsWith(INFO)) {
        action = INFO + "\"lakehouseLease\":\"" + number + "\"," + action.substring(INFO.length());
      }
      lines.append(action).append('\n');
    }
    return lines.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** Creates the file, or raises FileAlreadyExistsException if another writer has. */
  private void createOnce(Path path, byte[] content, Configuration conf) throws IOException {
    try {
      if (isOnDisk(path)) {
        link(new File(path.toUri().getPath()), content);
      } else if ("s3a".equals(path.toUri().getScheme())) {
        putIfAbsent(path, content, conf);
      } else {
        String text = new String(content, StandardCharsets.UTF_8).stripTrailing();
        storeOf(path).write(path, Arrays.asList(text.split("\n")).iterator(), false, conf);
      }
    } catch (IOException error) {
      byte[] existing = readAll(path, conf);
      if (existing == null) {
        throw error;
      }
      // A repeated request is refused by what the first one has written: then this version is ours.
      if (!Arrays.equals(existing, content)) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }
  }

  private static void link(File target, byte[] content) throws IOException {
    File part = new File(target.getParentFile(), "." + target.getName() + "." + UUID.randomUUID() + ".tmp");
    try {
      try (FileChannel channel = FileChannel.open(part.toPath(), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
        ByteBuffer buffer = ByteBuffer.wrap(content);
        while (buffer.hasRemaining()) {
          channel.write(buffer);
        }
        channel.force(true);
      }
      Files.createLink(target.toPath(), part.toPath());
    } finally {
      Files.deleteIfExists(part.toPath());
    }
  }

  private static void putIfAbsent(Path path, byte[] content, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path);
    builder.overwrite(false).recursive().opt("fs.option.create.conditional.overwrite", true);
    FSDataOutputStream out = (FSDataOutputStream) builder.build();
    try {
      out.write(content);
    } catch (IOException | RuntimeException error) {
      out.abort(); // to close it would create the file with a part of its content
      throw error;
    }
    out.close();
  }

  /** The file's content; null if there is none. */
  private static byte[] readAll(Path path, Configuration conf) throws IOException {
    try {
      if (isOnDisk(path)) {
        return Files.readAllBytes(new File(path.toUri().getPath()).toPath());
      }
      try (InputStream in = path.getFileSystem(conf).open(path)) {
        return in.readAllBytes();
      }
    } catch (FileNotFoundException | NoSuchFileException absent) {
      return null;
    }
  }
}
