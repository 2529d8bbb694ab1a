// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderEngine
import LarderRedis
import LarderTesting
import Synchronization
import Testing

/// A host: one store, with a link to a server.
struct Host: Sendable {
  let directory: TemporaryDirectory
  let store: SharedStore
  let link: RedisLink
  let name: RemoteName
  let errors = ErrorLog()

  init(
    _ configuration: RedisConfiguration, prefix: String = "test", clock: StoreClock = .system
  ) async throws {
    directory = try TemporaryDirectory()
    let errors = errors
    var options = StoreOptions(budget: .megabytes(64), clock: clock)
    options.onError = { errors.add("\($0)") }
    store = try SharedStore(at: directory.appending("store"), options)
    link = try RedisLink(configuration, prefix: prefix)
    name = RemoteName(link.description)
  }

  func cache<Value: Codable & Sendable>(
    of type: Value.Type = String.self, _ namespace: String = "values",
    _ options: RemoteOptions = RemoteOptions()
  ) -> PersistentCache<String, Value> {
    // A computation, and a turn, may take long on a busy machine.
    PersistentCache(
      storage: store, namespace: namespace, remote: link, remoteOptions: options,
      options: CacheOptions(computeTimeout: .seconds(600)))
  }

  var record: RemoteRecord {
    get throws { try #require(store.core.generation().table.remoteRecord(name)) }
  }

  /// Waits until the link has confirmed that it knows all changes.
  func linked() async throws {
    try await awaitEventually("the link begins") {
      try record.link != 0 && record.age < .milliseconds(300)
    }
  }

  /// Waits until every change that the server has executed by now has been applied.
  func settled() async throws {
    let start = ContinuousClock.now
    try await awaitEventually("the link has applied all changes") {
      try record.age < start.duration(to: .now)
    }
  }

  final class ErrorLog: Sendable {
    private let texts = Mutex<[String]>([])
    func add(_ text: String) { texts.withLock { $0.append(text) } }
    var all: [String] { texts.withLock { $0 } }
  }
}

@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct RemoteCacheTests {
  @Test(arguments: ServerKind.allCases)
  func `A value that one host sets is read, changed and removed by another`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let caches = hosts.map { $0.cache() }
    for host in hosts { try await host.linked() }
    for round in 0..<50 {
      let (writer, reader) = (caches[round % 2], caches[(round + 1) % 2])
      try await writer.setValue("value \(round)", forKey: "k")
      #expect(try await writer.value(forKey: "k") == "value \(round)")
      try await awaitEventually("the other host reads it") {
        try await reader.value(forKey: "k") == "value \(round)"
      }
      #expect(try await reader.value(forKey: "k", freshness: .latest) == "value \(round)")
    }
    #expect(try await caches[0].removeValue(forKey: "k"))
    #expect(try await caches[0].value(forKey: "k") == nil)
    try await awaitEventually("the other host reads none") {
      try await caches[1].value(forKey: "k") == nil
    }
    #expect(try await !caches[1].removeValue(forKey: "k"))
    for host in hosts {
      #expect(host.errors.all == [])
      #expect(try host.store.verify() == [])
    }
  }

  @Test(arguments: ServerKind.allCases)
  func `A copy is read without the server, and counted as fetched once`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let (first, second) = (hosts[0].cache(), hosts[1].cache())
    for host in hosts { try await host.linked() }
    try await first.setValue("x", forKey: "k")
    try await awaitEventually("the host has a copy") {
      try await second.value(forKey: "k") == "x"
        && hosts[1].store.namespace("values").bytes(forKey: "k") != nil
    }
    // The message about the write has come, and every read before it has been answered.
    try await awaitEventually("no read is sent to the server") {
      let before = try hosts[1].record.value(of: .fetchedHits)
      for _ in 0..<100 {
        #expect(try await second.value(forKey: "k") == "x")
        second.clearMemoryCache()
      }
      return try hosts[1].record.value(of: .fetchedHits) == before
    }
    #expect(try hosts[0].record.value(of: .fetchedHits) <= 1)
  }

  @Test func `Synchronous calls get values of the server, also on threads of the pool`()
    async throws
  {
    let server = try await RedisServer()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let (first, second) = (hosts[0].cache(), hosts[1].cache())
    await withTaskGroup(of: Bool.self) { group in
      for number in 0..<32 {
        group.addTask {
          first["k\(number)"] = "v\(number)"
          return second["k\(number)"] == "v\(number)" && first["k\(number)"] == "v\(number)"
        }
      }
      for await isRight in group { #expect(isRight) }
    }
    let values = try await second.values(forKeys: (0..<40).map { "k\($0)" })
    #expect(values.count == 32 && values["k7"] == "v7")
    #expect(hosts.flatMap(\.errors.all) == [])
  }

  @Test(arguments: ServerKind.allCases)
  func `Lifetimes, tags and negative entries reach the other hosts`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let (first, second) = (hosts[0].cache(), hosts[1].cache())
    for host in hosts { try await host.linked() }
    try await first.setValue("short", forKey: "short", expires: .after(.seconds(3)))
    let item = try await second.item(forKey: "short")
    #expect(item == nil || item?.value == "short")
    try await first.setValue("a", forKey: "a", tags: ["red", "blue"])
    try await first.setValue("b", forKey: "b", tags: ["blue"])
    try await first.setValue("c", forKey: "c", tags: ["red"])
    for key in ["a", "b", "c"] { #expect(try await second.value(forKey: key) == key) }
    try await second.removeAll(tagged: "red")
    #expect(try await second.value(forKey: "a") == nil)
    #expect(try await second.value(forKey: "b") == "b")
    try await awaitEventually("the values with the tag are gone") {
      let a = try await first.value(forKey: "a")
      let c = try await first.value(forKey: "c")
      return a == nil && c == nil
    }
    #expect(try await first.value(forKey: "b") == "b")
    try await first.setValue("new a", forKey: "a", tags: ["red"])
    try await awaitEventually("a new value with the tag is read") {
      try await second.value(forKey: "a") == "new a"
    }
    try await awaitEventually("the value expires everywhere") {
      let values = [
        try await first.value(forKey: "short"), try await second.value(forKey: "short"),
      ]
      return values == [nil, nil]
    }
    try await first.setAbsent(forKey: "none", expires: .after(.seconds(60)))
    #expect(try await second.value(forKey: "none") == nil)
    #expect(try await second.state(forKey: "none") == .absent)
    #expect(try await second.state(forKey: "unknown") == .unknown)
    try await first.removeAll()
    try await awaitEventually("all are removed") { try await second.value(forKey: "b") == nil }
    #expect(hosts.flatMap(\.errors.all) == [])
  }

  @Test(arguments: ServerKind.allCases)
  func `Hosts compute a key once, and a result after a write is not stored`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = try await withThrowingTaskGroup(of: Host.self) { group in
      for _ in 0..<3 { group.addTask { try await Host(server.socket) } }
      return try await group.reduce(into: [Host]()) { $0.append($1) }
    }
    let caches = hosts.map { $0.cache() }
    for host in hosts { try await host.linked() }
    let computations = Host.ErrorLog()
    for round in 0..<5 {
      try await withThrowingTaskGroup(of: String.self) { group in
        for cache in caches {
          for _ in 0..<4 {
            group.addTask {
              try await cache.value(forKey: "round \(round)") {
                computations.add("\(round)")
                try await awaitEventually("all callers wait for the value") {
                  caches.reduce(0) { $0 + $1.waitingCallers } == 12
                }
                return "computed \(round)"
              }
            }
          }
        }
        for try await value in group { #expect(value == "computed \(round)") }
      }
      #expect(computations.all.count == round + 1)
    }
    let late = try await caches[0].value(forKey: "late") {
      try await caches[1].setValue("newer", forKey: "late")
      return "late"
    }
    #expect(late == "late")
    #expect(try await caches[2].value(forKey: "late", freshness: .latest) == "newer")
    #expect(try await caches[0].value(forKey: "late", freshness: .latest) == "newer")
    let absent = try await caches[0].value(forKey: "absent", absentFor: .seconds(60)) { nil }
    #expect(absent == nil)
    #expect(try await caches[1].state(forKey: "absent") == .absent)
    struct Failure: Error {}
    await #expect(throws: Failure.self) {
      try await caches[0].value(forKey: "failing") { throw Failure() }
    }
    // The claim of the failed computation has ended.
    #expect(try await caches[1].value(forKey: "failing") { "second" } == "second")
  }

  @Test(arguments: ServerKind.allCases)
  func `Atomic operations of several hosts lose nothing`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let caches = hosts.map { $0.cache(of: Int.self, "counters") }
    for host in hosts { try await host.linked() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for cache in caches {
        for _ in 0..<4 {
          group.addTask { for _ in 0..<25 { try await cache.increment(forKey: "n") } }
        }
      }
      try await group.waitForAll()
    }
    for cache in caches { #expect(try await cache.value(forKey: "n", freshness: .latest) == 200) }
    let version = try await caches[0].versionedValue(forKey: "n")
    #expect(version.value == 200)
    #expect(try await caches[1].compareAndSet(1, forKey: "n", ifVersion: version.version))
    #expect(try await !caches[0].compareAndSet(2, forKey: "n", ifVersion: version.version))
    #expect(try await caches[0].value(forKey: "n", freshness: .latest) == 1)
    let first = try await caches[0].setIfAbsent(5, forKey: "once")
    let second = try await caches[1].setIfAbsent(6, forKey: "once")
    #expect(first && !second)
    #expect(try await caches[1].value(forKey: "once") == 5)
    #expect(hosts.flatMap(\.errors.all) == [])
  }

  @Test(arguments: ServerKind.allCases)
  func `A tag or namespace removed during a computation ends its result`(
    _ kind: ServerKind
  ) async throws {
    let server = try await kind.start()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let (first, second) = (hosts[0].cache(), hosts[1].cache())
    for host in hosts { try await host.linked() }
    let old = try await first.value(forKey: "a", tags: ["red"]) {
      try await second.removeAll(tagged: "red")
      return "old"
    }
    #expect(old == "old")
    for cache in [first, second] {
      #expect(try await cache.value(forKey: "a", freshness: .latest) == nil)
    }
    let other = try await first.value(forKey: "b") {
      try await second.removeAll()
      return "old"
    }
    #expect(other == "old")
    #expect(try await second.value(forKey: "b", freshness: .latest) == nil)
    #expect(try await second.value(forKey: "a", tags: ["red"]) { "new" } == "new")
    #expect(try await first.value(forKey: "a", freshness: .latest) == "new")
  }

  @Test func `Two Unicode forms of a tag are two tags, and of a namespace two namespaces`()
    async throws
  {
    let server = try await RedisServer()
    let hosts = [try await Host(server.socket), try await Host(server.socket)]
    let (first, second) = (hosts[0].cache(), hosts[1].cache())
    for host in hosts { try await host.linked() }
    let forms = ["caf\u{E9}", "cafe\u{301}"]
    for removed in forms {
      let value = try await first.value(forKey: "k", tags: forms) { removed }
      #expect(value == removed)
      #expect(try await second.value(forKey: "k", freshness: .latest) == removed)
      try await second.removeAll(tagged: removed)
      let left = try await first.value(forKey: "k", freshness: .latest)
      #expect(left == nil, "\(removed.utf8.count)")
    }
    let keys = forms.map { RemoteKey($0, EncodedKey("k")) }
    #expect(keys[0] != keys[1] && Set(keys).count == 2)
    #expect(keys[0] == RemoteKey(forms[0], EncodedKey("k")))
  }

  @Test func `A key whose value was removed by tag can be set if it is absent`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache()
    try await host.linked()
    let many = [String](repeating: "red", count: 300)
    try await cache.setValue("old", forKey: "k", tags: many)
    try await cache.removeAll(tagged: "red")
    #expect(try await cache.value(forKey: "k") == nil)
    #expect(try await cache.setIfAbsent("new", forKey: "k"))
    #expect(try await cache.value(forKey: "k", freshness: .latest) == "new")
    #expect(try await !cache.setIfAbsent("newer", forKey: "k"))
  }

  @Test func `A changed value keeps its lifetime and its tags`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache(of: Int.self)
    try await host.linked()
    try await cache.setValue(1, forKey: "n", expires: .after(.seconds(500)), tags: ["red"])
    #expect(try await cache.increment(forKey: "n") == 2)
    let connection = try await RedisConnection.connect(to: server.socket)
    let keys = try await connection.send(RedisCommand("KEYS", "*n}")).elements ?? []
    let key = try #require(keys.first?.text)
    let left = try await connection.send(RedisCommand("PTTL", key)).integer ?? 0
    #expect((400_000...500_000).contains(left))
    try await cache.removeAll(tagged: "red")
    #expect(try await cache.value(forKey: "n") == nil)
  }

  @Test func `In a transaction of the store a cache with a server is a typed error`() async throws {
    let server = try await RedisServer()
    let host = try await Host(server.socket)
    let cache = host.cache()
    let code = Mutex<StoreError.Code?>(nil)
    try await host.store.write { _ in
      do {
        try cache.setValue("x", forKey: "k")
      } catch let error as StoreError {
        code.withLock { $0 = error.code }
      }
    }
    #expect(code.withLock { $0 } == .insideTransaction)
  }
}
#endif
