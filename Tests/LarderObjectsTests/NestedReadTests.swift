// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

@Suite struct NestedReadTests {
  @Test(.timeLimit(.minutes(60)))
  func `More threads than there are readers may read inside of reads, all at once`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([Plate(id: 1, text: "A"), Plate(id: 2, text: "B")])
    final class Count: Sendable { let inside = Atomic<Int>(0) }
    let (count, threads) = (Count(), 24)
    let readers = (0..<threads).map { _ in
      JoinableThread { [store = ground.store] in
        Result {
          try store.objects(Plate.self).filter { plate in
            // Each thread holds a reader by now, and releases it only when all hold one.
            count.inside.add(1, ordering: .sequentiallyConsistent)
            let haveMet: Void? = try? eventually("all threads read") {
              count.inside.load(ordering: .sequentiallyConsistent) >= threads
            }
            guard haveMet != nil else { return false }
            return (try? store.objects(Plate.self).where(\.id == plate.id).count()) == 1
          }.fetch().count
        }
      }
    }
    for reader in readers { #expect(try reader.join().get() == 2) }
    #expect(try ground.store.storage.verify() == [])
  }

  /// As many readers as a process has in a store.
  private static let readers = 63

  /// Reads inside the given number of other reads.
  private func count(inside depth: Int, _ store: ObjectStore) throws -> Int {
    if depth == 0 { return try store.collection(Plate.self).count() }
    return try store.read { _ in try count(inside: depth - 1, store) }
  }

  @Test(.timeLimit(.minutes(60)))
  func `More reads inside of each other than there are readers are a typed error`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([Plate(id: 1, text: "A"), Plate(id: 2, text: "B")])
    for _ in 0..<2 {
      #expect(try count(inside: Self.readers - 1, ground.store) == 2)
      let error = #expect(throws: StoreError.self) {
        try count(inside: Self.readers, ground.store)
      }
      #expect(error?.code == .tooManyReaders && error?.message.contains("63") == true)
    }
    try ground.store.save(Plate(id: 3, text: "C"))
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Threads that hold all readers and need one more each do not wait forever`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([Plate(id: 1, text: "A"), Plate(id: 2, text: "B")])
    let meeting = Meeting(of: Self.readers)
    let readers = (0..<Self.readers).map { _ in
      JoinableThread { [store = ground.store] in
        Result {
          try store.read { _ in
            try meeting.meet()
            return try store.collection(Plate.self).count()
          }
        }
      }
    }
    var codes: [StoreError.Code] = []
    for reader in readers {
      do {
        #expect(try reader.join().get() == 2)
      } catch let error as StoreError {
        codes.append(error.code)
      }
    }
    #expect(codes.count >= 1 && codes.count < Self.readers)
    #expect(codes.allSatisfy { $0 == .tooManyReaders })
    #expect(try count(inside: Self.readers - 1, ground.store) == 2)
  }

  private struct TicketOfMore: Storable {
    let id: Int
    @HasOne var holder: Person
    var price: Int?
    static let storedName = Ticket.storedName
  }

  @Test(.timeLimit(.minutes(60)))
  func `The first query of a type with references takes no more readers than the next`() throws {
    let ground = try StoreFixture(StoreOptions())
    let maker = Maker(id: "m", name: "M")
    let person = Person(id: 1, name: "Ada", employer: maker)
    try ground.store.save((0..<40).map { Ticket(id: $0, holder: person) })
    func inside<R>(_ depth: Int, _ body: () throws -> R) throws -> R {
      if depth == 0 { return try body() }
      return try ground.store.read { _ in try inside(depth - 1, body) }
    }
    // Neither store has loaded its types yet.
    try inside(Self.readers - 1) {
      let fresh = try ObjectStore(at: ground.path, StoreOptions())
      let tickets = try fresh.objects(Ticket.self).fetch()
      #expect(tickets.count == 40 && tickets.allSatisfy { $0.holder.employer?.name == "M" })
    }
    // A declaration that differs is checked against a sample: one reader for it, one for its
    // references.
    try inside(Self.readers - 2) {
      let fresh = try ObjectStore(at: ground.path, StoreOptions())
      #expect(try fresh.objects(TicketOfMore.self).fetch().map(\.holder.name).count == 40)
    }
  }
}
