// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

/// An operation of a process on the files below one directory, or a line of its output.
enum DiskEvent {
  case makeDirectory(String)
  case create(String)
  case resize(String, Int)
  /// Makes a file at least this long.
  case extend(String, Int)
  /// `isStable`: through a descriptor that was opened with O_DSYNC.
  case write(String, offset: Int, bytes: [UInt8], isStable: Bool)
  case rename(String, to: String)
  case remove(String)
  /// `fsync` or `fdatasync` of a file or of a directory, and after how many events it began: what
  /// was written since may have been too late for it.
  case sync(String, begun: Int = .max)
  /// A line on standard output: an acknowledgement.
  case output(String)
}

/// The operations of a process and its children, in order, from strace's record.
struct DiskRecording {
  /// The calls that change files, `lseek`, which sets the position of `writev`, and those that start threads
  /// and processes.
  static let calls = [
    "clone", "clone3", "fork", "vfork",
    "openat", "mkdir", "mkdirat", "rename", "unlink", "unlinkat", "rmdir", "lseek", "pwrite64",
    "pwritev",
    "writev", "write", "fsync", "fdatasync", "sync_file_range", "ftruncate", "fallocate", "msync",
  ]

  private(set) var events: [DiskEvent] = []
  private let root: String
  /// The descriptors of a process.
  private struct Descriptors {
    var position: [Int: Int] = [:]
    var stable: Set<Int> = []
    /// The path each was opened as: `/proc/self/fd/<n>/...` is a path below it.
    var opened: [Int: String] = [:]
  }

  /// By process.
  private var all: [Int: Descriptors] = [:]
  /// The process of each thread that is not the first one of its process.
  private var processes: [Int: Int] = [:]
  private var current = 0
  private var descriptors: Descriptors {
    get { all[current, default: Descriptors()] }
    set { all[current] = newValue }
  }
  /// The number of events before each call ended.
  private var counts: [Int] = []

  /// - Parameter root: The directory below which files count, without a slash at the end.
  init(log: [UInt8], root: String) {
    self.root = root
    let calls = StraceLog.parse(log)
    // The first call of a new thread can end before the call that has started it.
    let starts = calls.filter { call in
      call.name.hasPrefix("clone") && (call.result ?? -1) > 0
        && call.arguments.contains { String(decoding: $0, as: UTF8.self).contains("CLONE_THREAD") }
    }
    for call in starts { processes[call.result!] = call.thread }
    for call in calls {
      counts.append(events.count)
      current = call.thread
      while let process = processes[current] { current = process }
      if (call.result ?? -1) >= 0 { record(call) }
    }
  }

  private mutating func record(_ call: SystemCall) {
    let result = call.result!
    switch call.name {
    case "openat": recordOpening(call, result)
    case "mkdir": add(real(call.string(0))) { .makeDirectory($0) }
    case "mkdirat": add(real(call.string(1), in: call.path(behind: 0))) { .makeDirectory($0) }
    case "rename":
      let target = real(call.string(1))
      add(real(call.string(0))) { .rename($0, to: target) }
    case "unlink", "rmdir": add(real(call.string(0))) { .remove($0) }
    case "unlinkat": add(real(call.string(1), in: call.path(behind: 0))) { .remove($0) }
    case "lseek": descriptors.position[call.number(0)!] = result
    case "pwrite64", "pwritev":
      recordWrite(call, at: call.number(3)!, result)
    case "writev", "write":
      let descriptor = call.number(0)!
      if descriptor == 1 {
        events.append(.output(call.string(1)))
        return
      }
      let offset = descriptors.position[descriptor, default: 0]
      descriptors.position[descriptor] = offset + result
      recordWrite(call, at: offset, result)
    case "fsync", "fdatasync":
      let begun = counts[call.begun]
      add(call.path(behind: 0)) { .sync($0, begun: begun) }
    case "ftruncate": add(call.path(behind: 0)) { .resize($0, call.number(1)!) }
    case "fallocate":
      add(call.path(behind: 0)) { .extend($0, call.number(2)! + call.number(3)!) }
    default: break
    }
  }

  private mutating func recordOpening(_ call: SystemCall, _ descriptor: Int) {
    let flags = call.text(2)
    descriptors.position[descriptor] = 0
    if flags.contains("O_DSYNC") || flags.contains("O_SYNC") {
      descriptors.stable.insert(descriptor)
    } else {
      descriptors.stable.remove(descriptor)
    }
    let path = real(call.string(1), in: call.path(behind: 0))
    descriptors.opened[descriptor] = path
    if flags.contains("O_CREAT") { add(path) { .create($0) } }
    if flags.contains("O_TRUNC") { add(path) { .resize($0, 0) } }
  }

  /// The path that a call's argument leads to.
  private func real(_ path: String, in directory: String? = nil) -> String {
    let prefix = "/proc/self/fd/"
    if path.hasPrefix(prefix) {
      let rest = path.dropFirst(prefix.count)
      let number = rest.prefix { $0 != "/" }
      if let base = Int(number).flatMap({ descriptors.opened[$0] }) {
        return base + rest.dropFirst(number.count)
      }
    }
    if path.hasPrefix("/") { return path }
    return (directory == "/" ? "" : directory ?? "") + "/" + path
  }

  private mutating func recordWrite(_ call: SystemCall, at offset: Int, _ count: Int) {
    let bytes = Array(call.bytes(1).prefix(count))
    precondition(bytes.count == count, "strace cut a string short")
    let isStable = descriptors.stable.contains(call.number(0)!)
    add(call.path(behind: 0)) { .write($0, offset: offset, bytes: bytes, isStable: isStable) }
  }

  private mutating func add(_ path: String?, _ event: (String) -> DiskEvent) {
    guard let path, path.hasPrefix(root + "/") || path == root else { return }
    events.append(event(path))
  }
}
