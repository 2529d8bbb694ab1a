// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// A second descriptor of a connected socket, by which any thread can send. The connection ends when both
/// descriptors are closed, or by ``shutDown()``.
package final class SocketWriter: Sendable {
  private let descriptor: CInt

  package init(of socket: CInt) throws(SystemError) {
    descriptor = fcntl(socket, F_DUPFD_CLOEXEC, 0)
    if descriptor < 0 { throw .last("fcntl") }
  }

  deinit { RawDescriptor.close(descriptor) }

  /// Sends as many bytes as the system takes at once.
  ///
  /// - Returns: Their number; zero if there is no room, and if the connection has ended.
  package func send(_ bytes: [UInt8]) -> Int {
    max(unsafe bytes.withUnsafeBytes { unsafe Self.send(descriptor, $0) }, 0)
  }

  private static func send(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer) -> Int {
    #if canImport(Glibc)
    unsafe Glibc.send(
      descriptor, bytes.baseAddress, bytes.count,
      CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
    #elseif canImport(Musl)
    unsafe Musl.send(
      descriptor, bytes.baseAddress, bytes.count, CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL))
    #else
    // The socket has SO_NOSIGPIPE.
    unsafe Darwin.send(descriptor, bytes.baseAddress, bytes.count, CInt(MSG_DONTWAIT))
    #endif
  }

  /// Ends the connection in both directions.
  package func shutDown() { _ = shutdown(descriptor, CInt(SHUT_RDWR)) }
}
