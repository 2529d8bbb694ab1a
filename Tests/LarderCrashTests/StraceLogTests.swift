// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

/// The tools of the other tests: no other test would find their defects.
@Suite struct StraceLogTests {
  private func parse(_ lines: String...) -> [SystemCall] {
    StraceLog.parse(Array(lines.map { $0 + "\n" }.joined().utf8))
  }

  @Test func `A write has its bytes, its path and its place`() throws {
    let call = try #require(
      parse(#"7 pwrite64(5<\x2f\x61>, "\x00\x2c\xff", 3, 4096) = 3"#).first)
    #expect(call.thread == 7 && call.name == "pwrite64" && call.result == 3)
    #expect(call.number(0) == 5 && call.path(behind: 0) == "/a")
    #expect(call.bytes(1) == [0, 0x2c, 0xff])
    #expect(call.number(3) == 4096)
  }

  @Test func `The buffers of a gathered write are one text`() throws {
    let call = try #require(
      parse(
        #"7 writev(5<\x2f\x61>, [{iov_base="\x01\x02", iov_len=2}, {iov_base="\x03", iov_len=1}], 2) = 3"#
      ).first)
    #expect(call.bytes(1) == [1, 2, 3] && call.result == 3)
  }

  @Test func `A call that was interrupted in the log is put together again`() throws {
    let calls = parse(
      #"7 write(3<\x2f\x61>, "\x01", 1 <unfinished ...>"#, #"8 fsync(4<\x2f\x62>) = 0"#,
      "7 <... write resumed>) = 1", "8 +++ exited with 0 +++",
      "9 fdatasync(4 <unfinished ...>")
    #expect(calls.map(\.name) == ["fsync", "write", "fdatasync"])
    #expect(calls[1].bytes(1) == [1] && calls[1].thread == 7 && calls[1].result == 1)
    #expect(calls[2].result == nil)
  }

  @Test func `An injected error of libdispatch's own open is recognised as not the store's`() {
    let calls = parse(
      #"7 openat(AT_FDCWD, "/lib/a", O_RDONLY) = -1 ENFILE (Too many open files) (INJECTED)"#,
      #"9 openat(AT_FDCWD, "/proc/8/stat", O_RDONLY) = -1 ENFILE (Too many open files) (INJECTED)"#)
    #expect(calls.map(\.isInjected) == [true, true])
    #expect(StraceLog.hasStruckDispatch(calls))
    #expect(!StraceLog.hasStruckDispatch([calls[0]]))
    #expect(
      !StraceLog.hasStruckDispatch(
        parse(
          #"7 openat(AT_FDCWD, "/lib/a", O_RDONLY) = 3"#,
          #"9 openat(AT_FDCWD, "/d/CURRENT", O_RDONLY) = -1 EIO (Input/output error) (INJECTED)"#,
          #"9 openat(AT_FDCWD, "/proc/8/stat", O_RDONLY) = 5"#)))
  }

  @Test func `An error is negative and a flag is text`() throws {
    let call = try #require(
      parse(#"7 openat(AT_FDCWD<\x2f>, "\x2f\x61", O_RDWR|O_CREAT, 0600) = -1 ENOSPC (No space)"#)
        .first)
    #expect(call.result == -1 && call.string(1) == "/a" && call.text(2) == "O_RDWR|O_CREAT")
  }
}

@Suite struct DiskTests {
  /// Returns the images of `/d` after a power failure, one for each fate.
  private func images(_ events: [DiskEvent], losing: Int? = nil) throws -> Set<[String: [UInt8]]> {
    var disk = DiskModel(root: "/d")
    for event in events { disk.apply(event, losing: losing) }
    let scratch = try Scratch()
    var result: Set<[String: [UInt8]]> = []
    for seed in 0..<60 {
      var fate = DiskFate(mapped: [:], random: SeededRandom(seed: UInt64(seed)))
      let path = scratch.appending("\(seed)")
      try disk.write(&fate, to: path)
      var image: [String: [UInt8]] = [:]
      for name in TestFiles.names(in: path) {
        image[name] = try TestFiles.contents(of: "\(path)/\(name)")
      }
      result.insert(image)
    }
    return result
  }

  private func write(_ byte: UInt8, at offset: Int = 0, isStable: Bool = false) -> DiskEvent {
    .write("/d/a", offset: offset, bytes: [byte], isStable: isStable)
  }

  @Test func `What was synced is there, names as well as bytes`() throws {
    let events: [DiskEvent] = [.create("/d/a"), write(1), .sync("/d/a"), .sync("/d")]
    #expect(try images(events) == [["a": [1]]])
    #expect(try images(events + [write(2)]) == [["a": [1]], ["a": [2]]])
    #expect(try images(events + [write(2, isStable: true)]) == [["a": [2]]])
    #expect(try images(events, losing: 0) == [["a": [0]]])
  }

  @Test func `A synced file without a synced name may be missing`() throws {
    #expect(
      try images([.create("/d/a"), write(1), .sync("/d/a")]) == [[:], ["a": [1]]])
  }

  @Test func `A rename that was not synced has happened or not`() throws {
    let events: [DiskEvent] = [
      .create("/d/a"), write(1), .sync("/d/a"), .sync("/d"), .rename("/d/a", to: "/d/b"),
    ]
    #expect(try images(events) == [["a": [1]], ["b": [1]]])
  }

  @Test func `Unsynced writes arrive in any order`() throws {
    let events: [DiskEvent] = [.create("/d/a"), .sync("/d"), write(1), write(2, at: 4096)]
    let found = try images(events).compactMap { $0["a"] }
    let first = [UInt8](repeating: 0, count: 4096)
    #expect(found.contains([]) && found.contains([1]))
    #expect(found.contains(first + [2]), "the second without the first")
    #expect(found.contains([1] + first.dropFirst() + [2]))
  }
}
