// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

#if os(Linux)
import Glibc

/// A FUSE file system with only a root directory, served by a thread.
///
/// Requests are a header of 40 bytes (length u32, operation u32, id u64 at 8) and a body; answers
/// a header of 16 (length u32, error i32, id u64) and a body (linux/fuse.h).
private final class FuseMount: Sendable {
  private let path: String
  private let descriptor: CInt
  private let server: JoinableThread<Void>

  /// `nil` if mounting is not permitted here.
  init?(at path: String) {
    let descriptor = unsafe open("/dev/fuse", O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    let options = "fd=\(descriptor),rootmode=40700,user_id=\(getuid()),group_id=\(getgid())"
    guard unsafe mount("larder-test", path, "fuse", 0, options) == 0 else {
      close(descriptor)
      return nil
    }
    self.path = path
    self.descriptor = descriptor
    server = JoinableThread { FuseMount.serve(descriptor) }
  }

  func unmount() {
    // The next read of the server fails.
    _ = unsafe umount2(path, CInt(MNT_DETACH))
    server.join()
    close(descriptor)
  }

  private static func serve(_ descriptor: CInt) {
    var buffer = [UInt8](repeating: 0, count: 1 << 18)
    while true {
      let count = unsafe buffer.withUnsafeMutableBytes { bytes in
        unsafe read(descriptor, bytes.baseAddress, bytes.count)
      }
      if count < 0, errno == EINTR || errno == EAGAIN { continue }
      guard count >= 40 else { return }
      let operation = number(buffer, at: 4, bytes: 4)
      let (error, body) = answer(operation)
      if let body { send(descriptor, error, id: Array(buffer[8..<16]), body) }
    }
  }

  /// Returns the answer, or `nil` if the request expects none.
  private static func answer(_ operation: UInt64) -> (Int32, [UInt8]?) {
    switch operation {
    case 26:  // INIT: version 7.23, no features, writes of 4,096 bytes
      return (0, words([7, 23, 4096, 0, 0, 4096]) + [UInt8](repeating: 0, count: 40))
    case 3:  // GETATTR of the root: valid for no time; node 1, directory 0700, two links
      let attributes = words([
        1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0o040700, 2, UInt32(getuid()),
        UInt32(getgid()), 0, 4096, 0,
      ])
      return (0, words([0, 0, 0, 0]) + attributes)
    case 17: return (0, [UInt8](repeating: 0, count: 80))  // STATFS
    case 2, 36: return (0, nil)  // FORGET, INTERRUPT
    case 1: return (-ENOENT, [])  // LOOKUP
    default: return (-ENOSYS, [])
    }
  }

  private static func number(_ buffer: [UInt8], at offset: Int, bytes: Int) -> UInt64 {
    (0..<bytes).reduce(0) { $0 | UInt64(buffer[offset + $1]) << UInt64(8 * $1) }
  }

  private static func words(_ values: [UInt32]) -> [UInt8] {
    values.flatMap { value in (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) } }
  }

  private static func send(_ descriptor: CInt, _ error: Int32, id: [UInt8], _ body: [UInt8]) {
    let answer = words([UInt32(16 + body.count), UInt32(bitPattern: error)]) + id + body
    _ = unsafe answer.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
  }
}

/// A file system that cannot keep several processes coherent.
@Suite(.timeLimit(.minutes(60))) struct RefusedFileSystemTests {
  /// Whether this process may mount one.
  private static let isPossible: Bool = {
    guard getuid() == 0, let directory = try? TemporaryDirectory(),
      let mount = FuseMount(at: directory.path)
    else { return false }
    mount.unmount()
    return true
  }()

  @Test(
    .enabled(
      if: RefusedFileSystemTests.isPossible,
      "a FUSE file system cannot be mounted here (root with /dev/fuse can)"),
    arguments: Durability.allCases)
  func `A FUSE file system is refused by name`(durability: Durability) throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("fuse")
    try TestFiles.makeDirectory(path)
    let mount = try #require(FuseMount(at: path))
    defer { mount.unmount() }
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: path, .init(durability: durability))
    }
    #expect(error?.code == .fileSystem, "\(error.map { "\($0)" } ?? "opened")")
    #expect(error?.message.contains("is on fuse") == true)
    #expect(error?.message.contains("local disk") == true)
  }
}
#endif
