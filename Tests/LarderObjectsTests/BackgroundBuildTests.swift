// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Dispatch
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// Receives a store's events and errors; holds the build after each step until it is released.
private final class BuildGate: Sendable {
  struct Step: Sendable {
    let index: String
    let done: Int
    let total: Int
  }

  private struct State {
    var steps: [Step] = []
    var errors: [ObjectError] = []
    var isOpen = false
  }

  private let state = Mutex(State())
  private let released = DispatchSemaphore(value: 0)
  private let stepped = DispatchSemaphore(value: 0)

  var steps: [Step] { state.withLock { $0.steps } }
  var errors: [ObjectError] { state.withLock { $0.errors } }
  private let holds: Bool

  init(holds: Bool = true) { self.holds = holds }

  var options: StoreOptions {
    StoreOptions(
      onError: { error in
        guard let error = error as? ObjectError else { return }
        self.state.withLock { $0.errors.append(error) }
        self.stepped.signal()
      },
      onEvent: { event in
        guard case .indexBuilding(let type, let index, let done, let total) = event else { return }
        self.state.withLock {
          $0.steps.append(Step(index: "\(type) \(index)", done: done, total: total))
        }
        self.stepped.signal()
        if self.holds, !self.state.withLock({ $0.isOpen }) { self.released.wait() }
      })
  }

  /// Waits for the next step or error.
  func waitForStep() throws {
    try #require(stepped.wait(timeout: .now() + 600) == .success, "no step in ten minutes")
  }

  /// Lets the build continue to its end.
  func open() {
    state.withLock { $0.isOpen = true }
    released.signal()
  }
}

@Suite struct BackgroundBuildTests {
  private static func plain(_ ids: Range<Int>) -> [PlainBook] {
    ids.map { PlainBook(id: $0, title: "t\($0 % 10)") }
  }

  @Test(.timeLimit(.minutes(60)))
  func `The first save builds a new index in steps, and queries scan until it is complete`() throws
  {
    let gate = BuildGate()
    let ground = try StoreFixture(gate.options)
    try ground.store.save(Self.plain(0..<2499))
    let books = ground.store.objects(IndexedBook.self).where(\.title == "t3")
    try ground.store.save(IndexedBook(id: 5000, title: "t3"))
    try gate.waitForStep()
    // Saved and deleted while the index is half built.
    try ground.store.save(IndexedBook(id: 1, title: "t3"))
    try ground.store.save(IndexedBook(id: 2003, title: "other"))
    try ground.store.delete(IndexedBook.self, id: 2013)
    let lines = try books.explain().split(separator: "\n")
    #expect(lines.first?.hasPrefix("scan all objects") == true)
    #expect(lines.last == "index \"title\" is being built, 40 %")
    #expect(try books.count() == 250)
    gate.open()
    var steps: [ObjectProgress] = []
    try ground.store.prepare(IndexedBook.self) { steps.append($0) }
    #expect(steps.last.map { $0.done == $0.total } == true)
    #expect(gate.steps.count == 3 && gate.steps.last?.done == 2499)
    #expect(try books.explain().hasPrefix("scan index \"title\""))
    #expect(try books.count() == 250)
    #expect(try Set(books.fetch().map(\.id)).isSuperset(of: [1, 3, 5000]))
    #expect(try ground.store.storage.verify() == [])
    #expect(gate.errors == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A query alone builds a new index without a call of prepare`() throws {
    let gate = BuildGate(holds: false)
    let ground = try StoreFixture(gate.options)
    try ground.store.save(Self.plain(0..<100))
    let books = ground.store.objects(IndexedBook.self).where(\.title == "t3")
    #expect(try books.count() == 10)
    try gate.waitForStep()
    #expect(gate.steps.map(\.index) == ["Book title"])
    #expect(try books.explain().hasPrefix("scan index \"title\""))
    #expect(try books.count() == 10)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A build that stored objects contradict is reported and explained, and others complete`()
    throws
  {
    let gate = BuildGate(holds: false)
    let ground = try StoreFixture(gate.options)
    try ground.store.save([PlainBook(id: 1, title: "same"), PlainBook(id: 2, title: "same")])
    let books = ground.store.objects(TwoIndexBook.self).where(\.title == "same")
    #expect(try books.count() == 2)
    while gate.errors.isEmpty { try gate.waitForStep() }
    #expect(gate.errors.map(\.code) == [.uniqueViolation])
    let last = try #require(try books.explain().split(separator: "\n").last)
    #expect(
      last.hasPrefix("index \"title\" is not used: ") && last.contains("uniqueViolation"), "\(last)"
    )
    let numbers = ground.store.objects(TwoIndexBook.self).where(\.id == 2)
    #expect(try numbers.explain().hasPrefix("scan index \"id\""))
    // Without the duplicate a new call builds it.
    try ground.store.save(TwoIndexBook(id: 1, title: "other"))
    try ground.store.prepare(TwoIndexBook.self)
    #expect(try books.explain().hasPrefix("scan index \"title\""))
    #expect(try books.count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A wait for a build ends at its limit or with its task, and the build continues`()
    async throws
  {
    let gate = BuildGate()
    let ground = try StoreFixture(gate.options)
    try await ground.store.save(Self.plain(0..<1500))
    let store = ground.store
    // A query starts the build, which has noted its index once it waits for the gate.
    _ = try await store.objects(IndexedBook.self).where(\.title == "t3").count()
    try gate.waitForStep()
    let error = await #expect(throws: ObjectError.self) {
      try await store.prepare(IndexedBook.self, within: .milliseconds(50))
    }
    #expect(error?.code == .buildTimeout && error?.index == "title")
    let waiting = Task { try await store.prepare(IndexedBook.self) }
    waiting.cancel()
    await #expect(throws: CancellationError.self) { try await waiting.value }
    gate.open()
    try await store.prepare(IndexedBook.self)
    #expect(try await store.objects(IndexedBook.self).where(\.title == "t3").count() == 150)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A store that is closed or released while an index is built ends the build`() throws {
    let gate = BuildGate()
    let ground = try StoreFixture()
    try ground.store.save(Self.plain(0..<1500))
    ground.store.close()
    do {
      let store = try ObjectStore(
        at: ground.path, gate.options.with(durability: .durable))
      #expect(try store.objects(IndexedBook.self).count() == 1500)
      try gate.waitForStep()
    }
    gate.open()
    let store = try ObjectStore(at: ground.path)
    try store.prepare(IndexedBook.self)
    #expect(try store.objects(IndexedBook.self).where(\.title == "t3").count() == 150)
    #expect(gate.errors == [])
  }
}

extension StoreOptions {
  fileprivate func with(durability: Durability) -> StoreOptions {
    var options = self
    options.durability = durability
    return options
  }
}

private struct TwoIndexBook: Storable {
  let id: Int
  var title: String
  static let storedName = "Book"
  static let indexes = [
    Index<TwoIndexBook>("title", \.title, unique: true), Index<TwoIndexBook>("id", \.id),
  ]
}
