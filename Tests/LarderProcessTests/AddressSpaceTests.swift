// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  /// Processes with less address space than the store's map has.
  @Suite(.serialized, .timeLimit(.minutes(60))) struct AddressSpaceTests {
    let directory: TemporaryDirectory
    init() throws { directory = try TemporaryDirectory() }
    var path: String { directory.appending("store") }

    private func peer(megabytes: Int) throws -> ChildProcess {
      try ChildProcess(
        "/bin/bash",
        ["-c", "ulimit -v \(megabytes << 10); exec \"$0\"", try TestExecutable.peer.path])
    }

    @Test(arguments: Durability.allCases)
    func `A store opens under a limit on address space, and without one keeps its whole map`(
      durability: Durability
    ) throws {
      let kind = durability == .cache ? "" : "\(durability)"
      let limited = try peer(megabytes: 3000)
      #expect(try limited.ask("open \(path) \(kind)") == "opened 1")
      try limited.order("set 1 one")
      let store = try SharedStore(at: path, StoreOptions(durability: durability))
      let numbers = PersistentCache<Int, String>(storage: store)
      #expect(try numbers.value(forKey: 1) == "one")
      try numbers.setValue("two", forKey: 1)
      #expect(try limited.ask("get 1") == "value two")
      let map = try store.core.generation().information().mapSize
      #expect(map == (durability == .cache ? 4 << 30 : 1 << 40))
      #expect(try store.statistics().generation == 1)
      try limited.dismiss()
    }

    @Test func `A process with a small map meets a larger file with an error that names ulimit -v`()
      throws
    {
      let store = try SharedStore(at: path, StoreOptions(durability: .durable))
      try store.setBytes([1], forKey: 1)
      let limited = try peer(megabytes: 900)
      #expect(try limited.ask("open \(path) durable") == "opened 1")
      #expect(try limited.ask("get 2") == "none")
      // Its map has at most a quarter of 900 MB.
      for key in 10..<13 {
        try store.setBytes([UInt8](repeating: 1, count: 80 << 20), forKey: key)
      }
      for line in ["get 2", "set 2 two"] {
        let answer = try limited.ask(line)
        #expect(answer.hasPrefix("error addressSpace "), "\(answer)")
        #expect(answer.contains("ulimit -v"), "\(answer)")
      }
      // The others are not disturbed.
      #expect(try store.bytes(forKey: 1) == [1])
      #expect(try store.verify() == [])
      // A map that has room for the file only: it can be read.
      let next = try peer(megabytes: 900)
      #expect(try next.ask("open \(path) durable") == "opened 1")
      #expect(try next.ask("get 2") == "none")
    }

    @Test(arguments: [Int.max, 1 << 43 + 1, 4095, -1])
    func `A budget no map can hold is an error and not a trap`(budget: Int) throws {
      for durability in Durability.allCases {
        let error = #expect(throws: StoreError.self) {
          try SharedStore(at: path, StoreOptions(durability: durability, budget: .bytes(budget)))
        }
        #expect(error?.code == .invalidOption, "\(error.map { "\($0)" } ?? "")")
      }
    }

    @Test(.enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
    func `An allocation that signals interrupt is tried again, and not for ever`() throws {
      let shim = try PreloadShim("interrupted_allocate", in: directory.path)
      func answer(_ count: Int) throws -> String {
        let peer = try TestExecutable.peer.start(
          environment: shim.environment.merging(["ALLOCATE_EINTR": "\(count)"]) { $1 })
        let opened = try peer.ask("open \(path)\(count)")
        guard opened == "opened 1" else { return opened }
        return try peer.ask("set 1 one")
      }
      #expect(try answer(60) == "ok")
      let refused = try answer(1_000_000)
      #expect(refused.hasPrefix("error system ") && refused.contains("fallocate"), "\(refused)")
    }
  }
}
