// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderDefaults
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Forks from a process whose threads are inside every lock of a store, again and again.
///
/// Only the thread that forks exists in a child. A lock that another thread held is held there for
/// ever: a use that acquires it before it finds out that this is a child never returns, or traps.
struct ForkStorm: Sendable {
  private let store: SharedStore
  private let numbers: PersistentCache<Int, String>
  private let objects: ObjectStore
  private let defaults: Defaults
  private let people: Query<PersonV1>
  private let erasing: ObjectStore

  /// A child does not encode it: the store's error comes first.
  private struct Unencodable: Codable, Sendable {
    static let key = DefaultsKey("unencodable", default: Unencodable())
    func encode(to encoder: any Encoder) throws {
      throw EncodingError.invalidValue(self, .init(codingPath: [], debugDescription: ""))
    }
  }

  init(_ store: SharedStore, _ numbers: PersistentCache<Int, String>) throws {
    self.store = store
    self.numbers = numbers
    objects = ObjectStore(store)
    defaults = try Defaults(at: store.path + "-defaults")
    people = objects.objects(PersonV1.self)
    var options = StoreOptions(durability: .durable)
    options.erasesOnSchemaChange = true
    erasing = try ObjectStore(at: store.path + "-erasing", options)
  }

  func run(children: Int) throws -> String {
    #if os(Linux)
    // All code has run once: the runtime acquires locks at a first look-up.
    _ = strangeResults()
    let isOver = Shared(false)
    let works: [@Sendable () -> Void] = [read, write, list, observe]
    let threads = works.map { work in
      JoinableThread { while !isOver.value { work() } }
    }
    // Its wake-ups hold the lock of the store's observers.
    let observer = Task.detached { [store] in for try await _ in try store.changes() {} }
    defer { observer.cancel() }
    var good = 0
    var others: [String] = []
    for _ in 0..<children {
      let child = fork()
      if child == 0 {
        // Ends a child that waits for ever.
        alarm(60)
        let strange = strangeResults()
        // Nothing is closed in a child, and nothing waits for it.
        defaults.close()
        objects.close()
        store.close()
        _exit(strange.isEmpty ? 0 : 1)
      }
      var status: Int32 = 0
      while unsafe waitpid(child, &status, 0) < 0, errno == EINTR {}
      if status == 0 { good += 1 } else { others.append(String(status)) }
    }
    isOver.value = true
    for thread in threads { thread.join() }
    return (["stormed \(good)"] + others).joined(separator: " ")
    #else
    throw Peer.Refusal(description: "Swift has no fork on this system")
    #endif
  }

  // MARK: What the threads do

  private func read() {
    for key in 0..<50 { _ = try? numbers.value(forKey: key) }
    _ = try? store.bytes(forKey: 1)
    _ = try? people.fetch()
    _ = try? defaults.value(String.self, forKey: "name")
    _ = try? defaults.value([Int].self, forKey: "list")
  }

  private func write() {
    for key in 0..<20 { numbers[key] = "w\(key)" }
    try? store.setBytes([1], forKey: 1)
    try? objects.save(PersonV1(id: 1, name: "a", age: "1"))
    try? erasing.save(PersonV1(id: 1, name: "a", age: "1"))
    try? defaults.setValue("b", forKey: "name")
    numbers.clearMemoryCache()
  }

  private func list() {
    _ = try? store.statistics()
    _ = try? numbers.values(forKeys: 0..<20)
    _ = try? store.namespace("x").contains(1)
    let second = PersistentCache<Int, String>(storage: store)
    _ = second[1]
  }

  private func observe() {
    let other = try? SharedStore(at: store.path)
    _ = try? other?.bytes(forKey: 2)
    other?.close()
  }

  // MARK: What the child does

  /// Counts how often the code of the type runs. In a child that may wait for ever.
  private struct Witness: Storable {
    static let uses = Atomic(0)
    static var storedName: String {
      uses.add(1, ordering: .relaxed)
      return "Witness"
    }
    static var indexes: [Index<Witness>] {
      uses.add(1, ordering: .relaxed)
      return []
    }
    var id: Int
  }

  private func strangeResults() -> [String] { use().filter { $0 != "usedAfterFork" } }

  private func use() -> [String] {
    let uses = Witness.uses.load(ordering: .relaxed)
    _ = try? objects.object(Witness.self, id: 1)
    _ = try? objects.objects(Witness.self).count()
    _ = try? objects.collection(Witness.self).count()
    _ = try? objects.objects(Witness.self).where { $0.id > 0 }.explain()
    try? objects.save(Witness(id: 1))
    _ = try? objects.schemaDescription(of: Witness.self)
    let ran = Witness.uses.load(ordering: .relaxed) - uses
    return (ran == 0 ? [] : ["ran code of a type"]) + codes()
  }

  private func codes() -> [String] {
    // Those without an error to give end all the same.
    _ = numbers[1]
    numbers[1] = "of the child"
    numbers.clearMemoryCache()
    _ = PersistentCache<Int, String>(storage: store)[1]
    _ = try? defaults.value(String.self, forKey: "name")
    let codes =
      ForkedChild.use(store, numbers)
      + [
        { _ = try people.fetch() },
        { _ = try people.count() },
        { try objects.save(PersonV1(id: 2, name: "b", age: "2")) },
        { _ = try objects.object(PersonV1.self, id: 1) },
        { _ = try objects.collection(PersonV1.self).count() },
        { _ = try defaults.value([Int].self, forKey: "list") },
        { _ = try defaults.value(String.self, forKey: "name") },
        { try defaults.setValue("c", forKey: "name") },
        { try numbers.removeAll() },
        { _ = try numbers.values(forKeys: 0..<3) },
        { _ = try numbers.keys() },
        { _ = try numbers.contains(1) },
        { try numbers.removeValue(forKey: 1) },
        { _ = try store.namespace("x").contains(1) },
        { try store.compact() },
        { _ = try objects.schemaDescription(of: PersonV1.self) },
        { _ = try ObjectStore(store).object(PersonV1.self, id: 1) },
        { try defaults.encode(Unencodable(), forKey: "name") },
        { try defaults.set(Unencodable(), for: Unencodable.key) },
        { try erasing.save(PersonV1(id: 3, name: "c", age: "3")) },
      ].map { (use: () throws -> Void) in ForkedChild.code(of: use) }
    return codes
  }
}

/// A value for several threads.
private final class Shared<Value: Sendable>: Sendable {
  private let state: Mutex<Value>
  init(_ value: Value) { state = Mutex(value) }
  var value: Value {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
