// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if !canImport(Darwin)
/// A file that a process has mapped: a line of `/proc/<pid>/maps`, which is
/// "start-end mode offset device inode path", with numbers to the base 16, but for the inode.
struct MemoryMap: Sendable, Hashable {
  let addresses: Range<UInt64>
  /// The offset in the file of the first address.
  let offset: UInt64
  let inode: UInt64
  let path: [UInt8]

  /// Returns the files that a process has mapped.
  ///
  /// - Parameter process: Its name in `/proc`.
  /// - Returns: `nil` if the list cannot be read: of another user's process, or without `/proc`.
  static func all(of process: String) -> [MemoryMap]? {
    guard let file = try? OwnedFile(path: "/proc/\(process)/maps", writable: false) else {
      return nil
    }
    // The file has no size.
    var content: [UInt8] = []
    do throws(SystemError) {
      while case let part = try file.read(count: 1 << 16, at: content.count), !part.isEmpty {
        content += part
      }
    } catch {
      return nil
    }
    // That of a process without memory is empty: it has ended, or is part of the kernel.
    if content.isEmpty { return nil }
    return content.split(separator: UInt8(ascii: "\n")).compactMap { MemoryMap(line: $0) }
  }

  /// Creates a map of a file, or returns `nil` if the line is of other memory.
  init?(line: ArraySlice<UInt8>) {
    let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 5)
    guard parts.count == 6 else { return nil }
    let ends = parts[0].split(separator: UInt8(ascii: "-")).map { Self.number($0, radix: 16) }
    guard ends.count == 2, let start = ends[0], let end = ends[1], start <= end,
      let offset = Self.number(parts[2], radix: 16), let inode = Self.number(parts[4], radix: 10)
    else { return nil }
    let path = parts[5].drop { $0 == UInt8(ascii: " ") }
    guard path.first == UInt8(ascii: "/") else { return nil }
    addresses = start..<end
    self.offset = offset
    self.inode = inode
    self.path = Array(path)
  }

  private static func number(_ digits: ArraySlice<UInt8>, radix: Int) -> UInt64? {
    UInt64(String(decoding: digits, as: UTF8.self), radix: radix)
  }
}
#endif
