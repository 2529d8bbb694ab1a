// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// Threads that inspect a store while another one closes it.
@Suite(.timeLimit(.minutes(60))) struct ClosingRaceTests {
  @Test func `Inspecting a store during a close ends with the error closed`()
    throws
  {
    let directory = try TemporaryDirectory()
    for round in 0..<60 {
      let store = try SharedStore(at: directory.path + "/store", .init(budget: .megabytes(1)))
      try store.setBytes([1], forKey: round)
      let looked = (0..<2).map { _ in Event() }
      let lookers = looked.map { looked in
        JoinableThread { () -> (any Error) in
          while true {
            do {
              _ = try store.statistics()
              looked.set()
            } catch { return error }
          }
        }
      }
      for signal in looked { signal.wait(nanoseconds: 60_000_000_000) }
      store.close()
      for looker in lookers { #expect((looker.join() as? StoreError)?.code == .closed) }
    }
  }
}
