// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The exports of the module must be enough to use it.
import LarderArchive
import LarderTesting
import Testing

/// A model as NamadaNativefier's document shows it.
// Each test uses its instances from one task.
private class Account: CodableArchivable, @unchecked Sendable {
  var userName: String
  var balance = 0
  var primaryKey: String { userName }
  class var archiveName: String { "Account" }
  static var archiveIndexes: [Index<Archived<Account>>] { [Index("balance", \.archive.balance)] }
  // A class that is not final may override its properties, so they count as computed.
  static var archiveComputedProperties: [ComputedProperty<Archived<Account>>] {
    [ComputedProperty("balance", \.archive.balance)]
  }

  init(userName: String) { self.userName = userName }
}

// As its class.
private final class SavingsAccount: Account, @unchecked Sendable {
  override class var archiveName: String { "SavingsAccount" }
}

@Suite(.timeLimit(.minutes(60)))
struct ClassTests {
  @Test func `A class that is not final is archived, found by queries and uses its indexes`() throws
  {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    let accounts: CacheManager<Account> = try NativefierFactory(store).cache()
    for (number, name) in ["ada", "bob", "eve"].enumerated() {
      let account = Account(userName: name)
      account.balance = number
      try accounts.throwing.insert(account)
    }
    #expect(
      accounts.findWhere.balance(greater(than: 0)).sortedBy.balance(.descending).getResults()
        .map(\.userName) == ["eve", "bob"])
    #expect(Archived<Account>.indexes.count == 1)
    let savings: CacheManager<SavingsAccount> = try NativefierFactory(store).cache()
    try savings.throwing.insert(SavingsAccount(userName: "zoe"))
    #expect(savings.getAll().map(\.userName) == ["zoe"])
    #expect(Archived<SavingsAccount>.indexes.isEmpty)
  }

  @Test func `What a caller changes in an instance is stored by update and not before`() throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    let accounts: CacheManager<Account> = try NativefierFactory(store).cache()
    let ada = Account(userName: "ada")
    accounts.insert(ada)
    ada.balance = 5
    let found = try #require(accounts.get(objectWithKey: "ada"))
    #expect(found.balance == 0)
    found.balance = 7
    #expect(accounts.getAll().map(\.balance) == [0])
    #expect(accounts.findWhere.balance(equal(with: 7)).getResults().isEmpty)
    accounts.update(found)
    #expect(accounts.get(objectWithKey: "ada")?.balance == 7)
  }
}
