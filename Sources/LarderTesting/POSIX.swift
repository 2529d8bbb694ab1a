// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The calls of libc that the kit makes, each in one place. Processes, files and histories do not use
// the library: a test kit that used the code under test would fail together with it. Only the
// temporary store, the clock of a store and the fault plans use the library.

#if canImport(Darwin)
import Darwin
#else
// The compiler cannot prove that no code writes the global variable `environ`.
@unsafe @preconcurrency import Glibc
#endif

/// libc, retried after signals, with errors thrown.
enum POSIX {
  /// Creates a pipe whose ends children do not inherit.
  ///
  /// A feature macro hides `pipe2`, so for a short time another thread's child could inherit the ends
  /// and keep them open. ``SpawnedProcess`` excludes that with a lock.
  static func pipe() throws(SystemCallError) -> (readEnd: Int32, writeEnd: Int32) {
    var ends: [Int32] = [-1, -1]
    #if canImport(Darwin)
    let result = unsafe Darwin.pipe(&ends)
    #else
    let result = unsafe Glibc.pipe(&ends)
    #endif
    if result != 0 { throw failure("pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }

  /// Opens a file, or creates it with mode 0600 if `flags` contain `O_CREAT`. Children do not inherit
  /// it.
  static func open(_ path: String, _ flags: Int32) throws(SystemCallError) -> Int32 {
    #if canImport(Darwin)
    let descriptor = unsafe Darwin.open(path, flags | O_CLOEXEC, 0o600)
    #else
    let descriptor = unsafe Glibc.open(path, flags | O_CLOEXEC, 0o600)
    #endif
    if descriptor < 0 { throw failure("open \(path)") }
    return descriptor
  }

  /// Makes reads and writes return `EAGAIN` instead of waiting, so that every wait is a `poll`.
  static func makeNonBlocking(_ descriptor: Int32) throws(SystemCallError) {
    if fcntl(descriptor, F_SETFL, O_NONBLOCK) < 0 { throw failure("fcntl") }
  }

  /// Waits until one of `events` occurs or `deadline` passes, and returns the events that occurred.
  ///
  /// The events always include `POLLHUP`.
  static func poll(
    _ descriptor: Int32, _ events: Int32, until deadline: ContinuousClock.Instant
  ) throws(SystemCallError) -> Int32 {
    while true {
      var request = pollfd(fd: descriptor, events: Int16(events), revents: 0)
      let limit = milliseconds(until: deadline)
      let count = unsafe withUnsafeMutablePointer(to: &request) { pointer in
        #if canImport(Darwin)
        unsafe Darwin.poll(pointer, 1, limit)
        #else
        unsafe Glibc.poll(pointer, 1, limit)
        #endif
      }
      if count >= 0 { return Int32(request.revents) }
      if errno != EINTR { throw failure("poll") }
    }
  }

  /// Returns the available bytes, an empty array at the end of the file, or `nil` if there are none yet.
  static func read(_ descriptor: Int32, limit: Int = 32_768) throws(SystemCallError) -> [UInt8]? {
    while true {
      var count = 0
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
        #if canImport(Darwin)
        count = unsafe Darwin.read(descriptor, buffer.baseAddress, limit)
        #else
        count = unsafe Glibc.read(descriptor, buffer.baseAddress, limit)
        #endif
        initialized = max(count, 0)
      }
      if count >= 0 { return bytes }
      if errno == EAGAIN { return nil }
      if errno != EINTR { throw failure("read") }
    }
  }

  /// Writes the bytes that fit now and returns their number.
  static func write(
    _ bytes: ArraySlice<UInt8>, to descriptor: Int32
  ) throws(SystemCallError) -> Int {
    while true {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        #if canImport(Darwin)
        unsafe Darwin.write(descriptor, buffer.baseAddress, buffer.count)
        #else
        unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
        #endif
      }
      if count >= 0 { return count }
      if errno == EAGAIN { return 0 }
      if errno != EINTR { throw failure("write") }
    }
  }

  /// Returns the contents of a file without moving its offset.
  static func contents(_ descriptor: Int32) throws(SystemCallError) -> [UInt8] {
    var bytes: [UInt8] = []
    while true {
      var chunk = [UInt8](repeating: 0, count: 65_536)
      let offset = off_t(bytes.count)
      let count = unsafe chunk.withUnsafeMutableBytes { buffer in
        unsafe pread(descriptor, buffer.baseAddress, buffer.count, offset)
      }
      if count < 0 && errno == EINTR { continue }
      if count < 0 { throw failure("pread") }
      if count == 0 { return bytes }
      bytes.append(contentsOf: chunk[..<count])
    }
  }

  /// Creates a file without a name, which is removed with its last descriptor. Children do not inherit
  /// it.
  static func anonymousFile() throws(SystemCallError) -> Int32 {
    var template = Array("\(temporaryRoot())/larder-XXXXXX".utf8CString)
    let descriptor = unsafe template.withUnsafeMutableBufferPointer { buffer in
      unsafe mkstemp(buffer.baseAddress!)
    }
    if descriptor < 0 { throw failure("mkstemp") }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    _ = unsafe template.withUnsafeBufferPointer { buffer in unsafe unlink(buffer.baseAddress!) }
    return descriptor
  }

  /// The directory of temporary files: `$TMPDIR`, else `/tmp`.
  static func temporaryRoot() -> String {
    var root = environmentValue("TMPDIR") ?? ""
    while root.count > 1 && root.hasSuffix("/") { root.removeLast() }
    return root.isEmpty ? "/tmp" : root
  }

  /// Returns the value of an environment variable, or `nil` if it is not set.
  static func environmentValue(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// This process's environment, as `NAME=value`.
  static func environment() -> [String] {
    #if canImport(Darwin)
    var entry = unsafe _NSGetEnviron().pointee
    #else
    var entry = unsafe environ
    #endif
    var entries: [String] = []
    while let text = unsafe entry.pointee {
      unsafe entries.append(String(cString: text))
      unsafe entry += 1
    }
    return entries
  }

  /// The time of a clock that all processes of this system share.
  static func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    _ = unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  static func failure(_ call: String) -> SystemCallError {
    SystemCallError(call: call, errno: errno)
  }

  /// Rounded up, so that a wait does not end shortly before its deadline and then spin.
  private static func milliseconds(until deadline: ContinuousClock.Instant) -> Int32 {
    let left = ContinuousClock.now.duration(to: deadline)
    if left <= .zero { return 0 }
    let (seconds, attoseconds) = left.components
    let rounded = min(seconds, 1_000_000) * 1000 + attoseconds / 1_000_000_000_000_000 + 1
    return Int32(clamping: rounded)
  }
}
