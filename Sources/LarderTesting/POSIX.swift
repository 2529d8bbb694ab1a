// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The few calls of libc the harness makes, each once. Processes, files and histories stand beside
// the library, not on it: a harness that ran through the code under test would fail together with
// it. Only the temporary store, the clock a store takes and the fault plans know the library.

#if canImport(Darwin)
  import Darwin
#else
  // `environ` is a global variable, which the compiler cannot know nobody writes.
  @unsafe @preconcurrency import Glibc
#endif

/// libc, retried after signals, with errors thrown.
enum POSIX {
  /// Both ends of a pipe, not inherited by children.
  ///
  /// `pipe2` is hidden behind a feature macro, so there is a moment in which another thread's child
  /// could inherit the ends and keep them open. ``SpawnedProcess`` excludes that with a lock.
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

  /// Opens a file, created with mode 0600 if `flags` ask for it. Children do not inherit it.
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

  /// Waits until one of `events` happens or `deadline` has passed, and says which happened.
  ///
  /// `POLLHUP` is always waited for; with no events it is all that is waited for.
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

  /// The bytes there are, `[]` at the end of the file, `nil` when nothing has arrived yet.
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

  /// Writes what fits now and returns how many bytes that were.
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

  /// Everything in a file from its beginning, without moving its offset.
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

  /// A file without a name, not inherited by children: gone with its last descriptor.
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

  /// Where temporary files belong: `$TMPDIR`, else `/tmp`.
  static func temporaryRoot() -> String {
    var root = environmentValue("TMPDIR") ?? ""
    while root.count > 1 && root.hasSuffix("/") { root.removeLast() }
    return root.isEmpty ? "/tmp" : root
  }

  /// The value of an environment variable, or `nil`.
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

  /// The time since some moment before this system's start, the same for all its processes.
  static func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    _ = unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  static func failure(_ call: String) -> SystemCallError {
    SystemCallError(call: call, errno: errno)
  }

  /// Rounded up, so that a wait never ends a moment before its deadline and then spins.
  private static func milliseconds(until deadline: ContinuousClock.Instant) -> Int32 {
    let left = ContinuousClock.now.duration(to: deadline)
    if left <= .zero { return 0 }
    let (seconds, attoseconds) = left.components
    let rounded = min(seconds, 1_000_000) * 1000 + attoseconds / 1_000_000_000_000_000 + 1
    return Int32(clamping: rounded)
  }
}
