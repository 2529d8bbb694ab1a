// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

@Suite struct NestedReadTests {
  @Test(.timeLimit(.minutes(10)))
  func `More threads than there are readers may read inside of reads, all at once`() throws {
    let ground = try Ground(StoreOptions())
    try ground.store.save([Plate(id: 1, text: "A"), Plate(id: 2, text: "B")])
    final class Meeting: Sendable { let inside = Atomic<Int>(0) }
    let (meeting, threads) = (Meeting(), 24)
    let readers = (0..<threads).map { _ in
      OwnThread { [store = ground.store] in
        Result {
          try store.objects(Plate.self).filter { plate in
            // Each holds a reader by now, and nobody lets go before all do.
            meeting.inside.add(1, ordering: .sequentiallyConsistent)
            while meeting.inside.load(ordering: .sequentiallyConsistent) < threads {}
            return (try? store.objects(Plate.self).where(\.id == plate.id).count()) == 1
          }.fetch().count
        }
      }
    }
    for reader in readers { #expect(try reader.join().get() == 2) }
    #expect(try ground.store.storage.verify() == [])
  }
}
