// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Account: Storable {
  let id: Int
  var small: Int8 = 0
  var balance: Int = 0
  var bytes: UInt64 = 0
  var huge: Int128 = 0
  var ratio: Double = 0
  static let storedName = "Account"
}

@Suite(.timeLimit(.minutes(60)))
struct SumTests {
  @Test func `A sum that does not fit is a typed error, and one that fits is exact on any way`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save([
      Account(id: 1, small: 100, balance: .max, bytes: .max, huge: .max, ratio: 1e308),
      Account(id: 2, small: 100, balance: .max, bytes: 1, huge: 1, ratio: 1e308),
      Account(id: 3, small: -100, balance: .min, bytes: 0, huge: -1, ratio: -1),
    ])
    let all = ground.store.objects(Account.self)
    #expect(try all.sum(\.small) == 100)
    #expect(try all.sum(\.balance) == .max - 1)
    #expect(try all.sum(\.huge) == .max)
    #expect(try all.sum(\.ratio) == .infinity)
    let two = all.where(\.id <= 2)
    for attempt in [
      { _ = try two.sum(\.small) }, { _ = try two.sum(\.balance) }, { _ = try all.sum(\.bytes) },
      { _ = try two.sum(\.huge) },
    ] as [() throws -> Void] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .overflow)
    }
    #expect(try all.where(\.id == 9).sum(\.balance) == 0)
  }

  @Test func `Sums of wide integers are those of wider ones`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions())
    for _ in 0..<60 {
      try ground.store.deleteAll(Account.self)
      let wide = (0..<Int.random(in: 1...9, using: &random)).map { _ in
        Int128(Int64(bitPattern: random.next())) << Int128(Int.random(in: 0...64, using: &random))
      }
      try ground.store.save(wide.enumerated().map { Account(id: $0.offset, huge: $0.element) })
      var expected: Int128? = 0
      // From the outside in, so that no part is larger than it must be.
      var rest = wide.sorted()
      while let sum = expected, !rest.isEmpty {
        let next = sum < 0 ? rest.removeLast() : rest.removeFirst()
        let (total, overflow) = sum.addingReportingOverflow(next)
        expected = overflow ? nil : total
      }
      let sum = try? ground.store.objects(Account.self).sum(\.huge)
      #expect(sum == expected, "\(seed): \(wide)")
    }
  }
}
