// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The identity of this process: its boot of the machine, its PID namespace, its start time.
package enum ProcessIdentity {
  package static var pid: Int32 { getpid() }

  /// The name of the machine, for errors and logs.
  package static let hostName: String = {
    var bytes = [CChar](repeating: 0, count: 256)
    guard unsafe gethostname(&bytes, bytes.count - 1) == 0 else { return "unknown" }
    return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }()

  /// A 64-bit digest of the kernel's boot identifier: differs after every start of the system.
  package static let bootID: UInt64 = {
    #if canImport(Darwin)
    var time = timeval()
    var size = MemoryLayout<timeval>.size
    guard unsafe sysctlbyname("kern.boottime", &time, &size, nil, 0) == 0 else { return 1 }
    return UInt64(time.tv_sec) &* 1_000_000 &+ UInt64(time.tv_usec)
    #else
    guard
      let file = try? OwnedFile(path: "/proc/sys/kernel/random/boot_id", writable: false),
      let bytes = try? file.read(count: 36, at: 0), !bytes.isEmpty
    else { return 1 }
    return max(XXH64.hash(bytes), 1)
    #endif
  }()

  /// Whether ``bootID`` is one: without `/proc` it is the same for every start of the system.
  package static var hasBootID: Bool { bootID != 1 }

  /// The version of the Linux kernel, such as 6.8; zero if it is not known.
  package static let kernelVersion: (major: Int, minor: Int) = {
    guard let file = try? OwnedFile(path: "/proc/sys/kernel/osrelease", writable: false),
      let bytes = try? file.read(count: 64, at: 0)
    else { return (0, 0) }
    let numbers = String(decoding: bytes, as: UTF8.self).split(separator: ".").prefix(2).map {
      Int($0.prefix { ("0"..."9").contains($0) }) ?? 0
    }
    return numbers.count == 2 ? (numbers[0], numbers[1]) : (0, 0)
  }()

  /// The PID namespace's number, or zero on systems without namespaces.
  package static let pidNamespace: UInt64 = {
    #if canImport(Darwin)
    return 0
    #else
    return (try? FileSystem.status(of: "/proc/self/ns/pid"))??.inode ?? 0
    #endif
  }()

  /// The start time of this process, in the kernel's ticks: with the pid it identifies a process.
  package static let startTime: UInt64 = {
    #if canImport(Darwin)
    return startTime(of: getpid()) ?? 0
    #else
    // `self` is this process also in the `/proc` of another PID namespace.
    return startTime(in: status(ofEntry: "self")) ?? 0
    #endif
  }()

  package static func startTime(of pid: Int32) -> UInt64? {
    #if canImport(Darwin)
    return kill(pid, 0) == 0 ? 1 : nil
    #else
    return startTime(in: status(of: pid))
    #endif
  }

  /// Whether a process is stopped, by a signal or a debugger; `nil` if that is unknown.
  package static func isStopped(_ pid: Int32) -> Bool? {
    #if canImport(Darwin)
    return nil
    #else
    guard let state = status(of: pid)?.first?.first else { return nil }
    return state == UInt8(ascii: "T") || state == UInt8(ascii: "t")
    #endif
  }

  /// Returns the process of a thread, or `nil` if the thread does not exist or `/proc` is not that of this PID
  /// namespace.
  package static func process(ofThread thread: Int32) -> Int32? {
    #if canImport(Darwin)
    return nil
    #else
    guard
      hasOwnProc,
      let file = try? OwnedFile(path: "/proc/\(thread)/status", writable: false),
      let bytes = try? file.read(count: 1024, at: 0)
    else { return nil }
    for line in bytes.split(separator: UInt8(ascii: "\n")) where line.starts(with: "Tgid:".utf8) {
      return Int32(
        String(decoding: line.dropFirst(5).drop { $0 == 9 || $0 == 32 }, as: UTF8.self))
    }
    return nil
    #endif
  }

  /// Whether a process has mapped a file with an inode number, of any file system; `nil` if that is unknown.
  package static func hasMapped(inode: UInt64, _ pid: Int32) -> Bool? {
    #if canImport(Darwin)
    return nil
    #else
    guard hasOwnProc else { return nil }
    return MemoryMap.all(of: "\(pid)")?.contains { $0.inode == inode }
    #endif
  }

  #if !canImport(Darwin)
  /// Whether `/proc` shows the PID namespace of this process. That of another one has other processes under the same
  /// numbers: a container can have its host's.
  private static let hasOwnProc = FileSystem.resolved("/proc/self") == "/proc/\(getpid())"

  private static func startTime(in status: [ArraySlice<UInt8>]?) -> UInt64? {
    guard let status, status.count > 19 else { return nil }
    return UInt64(String(decoding: status[19], as: UTF8.self))
  }

  private static func status(of pid: Int32) -> [ArraySlice<UInt8>]? {
    hasOwnProc ? status(ofEntry: "\(pid)") : nil
  }

  /// The fields of a `stat` in `/proc` after the name.
  private static func status(ofEntry entry: String) -> [ArraySlice<UInt8>]? {
    guard
      let file = try? OwnedFile(path: "/proc/\(entry)/stat", writable: false),
      let bytes = try? file.read(count: 1024, at: 0),
      // The command name is in parentheses and may hold anything: count from its end.
      let close = bytes.lastIndex(of: UInt8(ascii: ")"))
    else { return nil }
    return bytes[(close + 1)...].split(separator: UInt8(ascii: " "))
  }
  #endif
}
