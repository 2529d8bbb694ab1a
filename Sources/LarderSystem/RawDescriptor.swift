// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// Both ends of a pipe; children inherit neither.
package struct PipePair: Sendable {
  package let readEnd: CInt
  package let writeEnd: CInt

  package init() throws(SystemError) {
    var ends: [CInt] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { throw .last("pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    readEnd = ends[0]
    writeEnd = ends[1]
  }
}

/// Operations on descriptors that no `OwnedFile` owns.
package enum RawDescriptor {
  /// Opens `/dev/null` as standard input, output or error if this process was started without them:
  /// the next file opened by any part of the process would otherwise be used in their place.
  ///
  /// - Returns: The missing ones.
  package static func openMissing() -> [CInt] {
    var missing: [CInt] = []
    // The system assigns the lowest free number.
    for number in CInt(0)...2 where fcntl(number, F_GETFD) == -1 {
      missing.append(number)
      guard unsafe larder_open("/dev/null", O_RDWR, 0) == number else { return missing }
      _ = fcntl(number, F_SETFD, 0)
    }
    return missing
  }

  /// Returns whether `count` more descriptors can be opened.
  package static func canOpen(_ count: Int) -> Bool {
    let opened = (0..<count).map { _ in unsafe larder_open("/dev/null", O_RDONLY, 0) }
    for descriptor in opened where descriptor >= 0 { close(descriptor) }
    return !opened.contains { $0 < 0 }
  }

  package static func close(_ descriptor: CInt) {
    #if canImport(Glibc)
    _ = Glibc.close(descriptor)
    #elseif canImport(Musl)
    _ = Musl.close(descriptor)
    #else
    _ = Darwin.close(descriptor)
    #endif
  }

  /// Reads up to `count` bytes; returns an empty array at the end, and `nil` if nothing is
  /// available now or a signal arrived.
  package static func read(_ descriptor: CInt, count: Int) throws(SystemError) -> [UInt8]? {
    var failure: CInt = 0
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
      let result = unsafe Self.read(descriptor, buffer.baseAddress!, count)
      if result < 0 { failure = currentErrno() }
      length = max(result, 0)
    }
    if failure == EINTR || failure == EAGAIN { return nil }
    if failure != 0 { throw SystemError(errno: failure, operation: "read") }
    return bytes
  }

  private static func put(_ descriptor: CInt, _ from: UnsafeRawPointer, _ count: Int) -> Int {
    #if canImport(Glibc)
    unsafe Glibc.write(descriptor, from, count)
    #elseif canImport(Musl)
    unsafe Musl.write(descriptor, from, count)
    #else
    unsafe Darwin.write(descriptor, from, count)
    #endif
  }

  private static func read(_ descriptor: CInt, _ to: UnsafeMutableRawPointer, _ count: Int) -> Int {
    #if canImport(Glibc)
    unsafe Glibc.read(descriptor, to, count)
    #elseif canImport(Musl)
    unsafe Musl.read(descriptor, to, count)
    #else
    unsafe Darwin.read(descriptor, to, count)
    #endif
  }

  /// Writes all of it, waiting for the reader.
  ///
  /// - Parameter interrupted: A closure that is called if a signal arrives during the wait.
  package static func write(
    _ bytes: ArraySlice<UInt8>, to descriptor: CInt, interrupted: () -> Void = {}
  ) throws(SystemError) {
    var rest = bytes
    while !rest.isEmpty {
      let result = unsafe rest.withUnsafeBytes { buffer in
        unsafe put(descriptor, buffer.baseAddress!, buffer.count)
      }
      if result >= 0 {
        rest = rest.dropFirst(result)
        continue
      }
      switch currentErrno() {
      case EINTR: interrupted()
      case EAGAIN:
        // Another process that shares the descriptor made it non-blocking.
        _ = try wait(for: [.init(descriptor, writable: true)])
      default: throw .last("write")
      }
    }
  }

  package struct Interest: Sendable {
    let descriptor: CInt
    let isWritable: Bool
    package init(_ descriptor: CInt, writable: Bool = false) {
      self.descriptor = descriptor
      isWritable = writable
    }
  }

  /// Waits until a descriptor is ready or a signal arrives; returns which ones are ready.
  ///
  /// - Parameter milliseconds: The time after which none is ready; -1: no limit.
  package static func wait(
    for interests: [Interest], milliseconds: CInt = -1
  ) throws(SystemError) -> [Bool] {
    var requests = interests.map { interest in
      pollfd(
        fd: interest.descriptor, events: Int16(interest.isWritable ? POLLOUT : POLLIN), revents: 0)
    }
    let count = unsafe requests.withUnsafeMutableBufferPointer { buffer in
      unsafe poll(buffer.baseAddress, nfds_t(buffer.count), milliseconds)
    }
    if count < 0 {
      if currentErrno() == EINTR { return interests.map { _ in false } }
      throw .last("poll")
    }
    return requests.map { $0.revents != 0 }
  }

  package static func isTerminal(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }

  /// Whether a write failed because the pipe has no reader.
  package static func isBrokenPipe(_ error: SystemError) -> Bool { error.errno == EPIPE }

  /// Sets close-on-exec on every descriptor except the three standard ones.
  package static func setCloseOnExec() {
    #if canImport(Darwin)
    let names: [String] = (0..<256).map(String.init)
    #else
    let names = (try? FileSystem.names(in: "/proc/self/fd")) ?? []
    #endif
    for name in names {
      guard let descriptor = CInt(name), descriptor > 2 else { continue }
      _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }
  }

  /// The columns of the terminal of a descriptor, or `nil` if it is not a terminal or has no size.
  package static func columns(_ descriptor: CInt) -> Int? {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else {
      return nil
    }
    return Int(size.ws_col)
  }
}
