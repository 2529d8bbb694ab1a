// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import Larder
import LarderEngine
import LarderRedis
import LarderTesting
import Testing

/// Replies and messages of one server on several connections, in another order than it sent them.
@Suite(.enabled(if: RedisServer.isAvailable, needsRedis), .timeLimit(.minutes(60)))
struct DelayedReplyTests {
  /// A host whose connections can be held, and one that writes.
  private struct Setting {
    let server: RedisServer
    let proxy: RedisProxy
    let host: Host
    let writer: Host

    init() async throws {
      server = try await RedisServer()
      proxy = try await RedisProxy(server)
      host = try await Host(proxy.socket("first"))
      writer = try await Host(server.socket)
      for host in [host, writer] {
        // A link begins with the first cache.
        _ = host.cache()
        try await host.linked()
      }
    }

    func awaitHeld(_ name: String, _ parts: Int = 1) async throws {
      try await awaitEventually("a reply is held") { proxy.heldParts(name) >= parts }
    }

    /// Waits until the host has a verified copy of a value.
    func awaitCopy(_ value: String?, _ cache: PersistentCache<String, String>) async throws {
      try await awaitEventually("the host has a verified copy") {
        let before = try host.record.value(of: .fetchedHits)
        let found = try await cache.value(forKey: "k")
        return try found == value && host.record.value(of: .fetchedHits) == before
      }
    }
  }

  @Test func `A reply that a change has overtaken is not kept`() async throws {
    let setting = try await Setting()
    let (reader, writer) = (setting.host.cache(), setting.writer.cache())
    try await writer.setValue("old", forKey: "k")
    _ = try await reader.value(forKey: "other")
    try await setting.host.settled()
    setting.proxy.hold("first")
    let late = Task { try await reader.value(forKey: "k") }
    try await setting.awaitHeld("first")
    try await writer.setValue("new", forKey: "k")
    try await setting.host.settled()
    setting.proxy.release("first")
    // The value was current when the read began.
    #expect(try await late.value == "old")
    #expect(try await reader.value(forKey: "k") == "new")
    #expect(try setting.host.store.verify() == [])
  }

  /// Returns what `body` reads, in an attempt in which it has read a value each time. A link that is held for
  /// two seconds counts as lost, and the host then reads nothing: on a busy machine that can happen.
  private func withLinks(_ body: () async throws -> [String?]) async throws -> [String?] {
    var values: [String?] = []
    for _ in 0..<20 {
      values = try await body()
      if !values.contains(nil) { break }
    }
    return values
  }

  @Test func `A read after a write gets no reply to a request before the write`() async throws {
    #expect(try await withLinks(readAroundAWrite) == ["old", "new", "new"])
  }

  /// Returns what a host reads by a request before a write, after the write, and once its links are up to date.
  private func readAroundAWrite() async throws -> [String?] {
    let setting = try await Setting()
    let second = try RedisLink(setting.proxy.socket("second"), prefix: "test")
    let reader = setting.host.cache()
    let writer = PersistentCache<String, String>(
      storage: setting.host.store, namespace: "values", remote: second)
    try await writer.setValue("old", forKey: "k")
    _ = try await reader.value(forKey: "other")
    try await setting.host.store.namespace("values").removeAll()
    setting.proxy.hold("first-link")
    setting.proxy.hold("second-link")
    setting.proxy.hold("first")
    let late = Task { try await reader.value(forKey: "k") }
    try await setting.awaitHeld("first")
    try await writer.setValue("new", forKey: "k")
    guard let own = try await writer.value(forKey: "k") else { return [nil] }
    #expect(own == "new")
    // Without the copy the next read needs the server.
    try await setting.host.store.namespace("values").removeAll()
    let next = Task { try await reader.value(forKey: "k") }
    setting.proxy.release("first")
    let values = [try await late.value, try await next.value]
    setting.proxy.release("first-link")
    setting.proxy.release("second-link")
    return values + [try await reader.value(forKey: "k")]
  }

  @Test func `Of two overlapping reads the older value does not replace the newer one`()
    async throws
  {
    #expect(try await withLinks(overlappingReads) == ["new", "old", "new", "new"])
  }

  /// Returns what a read finds while an older one waits, what that one finds, and what both find then.
  private func overlappingReads() async throws -> [String?] {
    let setting = try await Setting()
    let second = try RedisLink(setting.proxy.socket("second"), prefix: "test")
    let first = setting.host.cache()
    let other = PersistentCache<String, String>(
      storage: setting.host.store, namespace: "values", remote: second)
    let writer = setting.writer.cache()
    try await writer.setValue("old", forKey: "k")
    // Both have connections by now.
    _ = try await first.value(forKey: "other")
    _ = try await other.value(forKey: "other")
    try await setting.host.settled()
    setting.proxy.hold("first")
    let late = Task { try await first.value(forKey: "k") }
    try await setting.awaitHeld("first")
    setting.proxy.hold("first-link")
    setting.proxy.hold("second-link")
    try await writer.setValue("new", forKey: "k")
    // The link has not heard of the change yet.
    guard let newer = try await other.value(forKey: "k") else { return [nil] }
    let store = setting.host.store
    try await awaitEventually("the host has a copy of the newer value") {
      try store.namespace("values").bytes(forKey: "k") != nil
    }
    setting.proxy.release("first")
    let older = try await late.value
    // Its copy is stored or refused by now, because the store executes writes in their order.
    try await store.write { _ in }
    let values = [try await first.value(forKey: "k"), try await other.value(forKey: "k")]
    setting.proxy.release("first-link")
    setting.proxy.release("second-link")
    #expect(try store.verify() == [])
    return [newer, older] + values
  }

  @Test func `A value that could not be stored leaves no older copy`() async throws {
    #expect(try await withLinks(readAroundAnOlderCopy) == ["newest", "newest", "newest"])
  }

  /// Returns what a read finds whose request was delayed until a copy of an older value was stored, and what the next
  /// ones find.
  private func readAroundAnOlderCopy() async throws -> [String?] {
    let setting = try await Setting()
    let second = try RedisLink(setting.proxy.socket("second"), prefix: "test")
    let first = setting.host.cache()
    let other = PersistentCache<String, String>(
      storage: setting.host.store, namespace: "values", remote: second)
    let writer = setting.writer.cache()
    let store = setting.host.store
    try await writer.setValue("old", forKey: "k")
    _ = try await first.value(forKey: "other")
    _ = try await other.value(forKey: "other")
    try await setting.host.settled()
    try await store.namespace("values").removeAll()
    setting.proxy.holdRequests("first")
    let late = Task { try await first.value(forKey: "k") }
    try await awaitEventually("the request is held") { setting.proxy.heldRequests("first") > 0 }
    // The change overtakes the request, so its answer cannot be stored.
    try await writer.setValue("newer", forKey: "k")
    try await setting.host.settled()
    guard try await other.value(forKey: "k") == "newer" else { return [nil] }
    try await awaitEventually("the host has a copy") {
      let copy = try store.namespace("values").bytes(forKey: "k") ?? []
      return String(decoding: copy, as: UTF8.self).contains("newer")
    }
    setting.proxy.hold("first-link")
    setting.proxy.hold("second-link")
    try await writer.setValue("newest", forKey: "k")
    setting.proxy.releaseRequests("first")
    var values = [try await late.value]
    // Its copy is stored or refused by now, because the store executes writes in their order.
    try await store.write { _ in }
    let copy = try store.namespace("values").bytes(forKey: "k") ?? []
    #expect(!String(decoding: copy, as: UTF8.self).contains("newer"))
    for _ in 0..<2 { values.append(try await first.value(forKey: "k")) }
    setting.proxy.release("first-link")
    setting.proxy.release("second-link")
    #expect(try store.verify() == [])
    return values
  }

  @Test func `A copy of which a change is held back is served for no longer than the limit`()
    async throws
  {
    // On a busy machine the limit may be over before the first read.
    for _ in 0..<20 {
      if let age = try await ageOfLastOldRead() {
        #expect(age < .seconds(1))
        return
      }
    }
    Issue.record("The old value was never read.")
  }

  /// Returns when the last read of a replaced value began, after the write, if there was one.
  private func ageOfLastOldRead() async throws -> Duration? {
    let setting = try await Setting()
    let options = RemoteOptions(maxStaleness: .seconds(1))
    let (reader, writer) = (setting.host.cache("values", options), setting.writer.cache())
    try await writer.setValue("old", forKey: "k")
    try await setting.awaitCopy("old", reader)
    setting.proxy.hold("first-link")
    try await writer.setValue("new", forKey: "k")
    let written = ContinuousClock.now
    var last: ContinuousClock.Instant?
    try await awaitEventually("the host reads the new value") {
      let start = ContinuousClock.now
      if try await reader.value(forKey: "k") == "new" { return true }
      last = start
      return false
    }
    setting.proxy.release("first-link")
    return last.map { $0 - written }
  }

  @Test func `After the latest value a read finds no older one, also if the key is gone`()
    async throws
  {
    let setting = try await Setting()
    let (reader, writer) = (setting.host.cache(), setting.writer.cache())
    try await writer.setValue("old", forKey: "k")
    try await setting.awaitCopy("old", reader)
    setting.proxy.hold("first-link")
    try await writer.setValue("new", forKey: "k")
    #expect(try await reader.value(forKey: "k", freshness: .latest) == "new")
    // On a busy machine the link may count as lost by now.
    let found = try await reader.value(forKey: "k")
    #expect(found == "new" || found == nil)
    #expect(try await writer.removeValue(forKey: "k"))
    #expect(try await reader.value(forKey: "k", freshness: .latest) == nil)
    #expect(try await reader.value(forKey: "k") == nil)
    setting.proxy.release("first-link")
  }

  @Test @MainActor func `A read that blocks an actor waits for no request of a task on the actor`()
    async throws
  {
    let setting = try await Setting()
    let reader = setting.host.cache()
    try await setting.writer.cache().setValue("x", forKey: "k")
    _ = try await reader.value(forKey: "other")
    try await setting.host.settled()
    setting.proxy.hold("first")
    let suspended = Task { @MainActor in try await reader.value(forKey: "k") }
    try await setting.awaitHeld("first")
    let release = Task.detached {
      defer { setting.proxy.release("first") }
      // The second reply is that to the read below.
      try await setting.awaitHeld("first", 2)
    }
    #expect(try Self.read(reader) == "x")
    try await release.value
    #expect(try await suspended.value == "x")
  }

  @Test @MainActor func `A touch that blocks an actor waits for no turn of a task on the actor`()
    async throws
  {
    let setting = try await Setting()
    let cache = setting.host.cache(of: Int.self)
    try await cache.setValue(1, forKey: "k")
    _ = try await cache.value(forKey: "other")
    try await setting.host.settled()
    setting.proxy.hold("first")
    let suspended = Task { @MainActor in try await cache.increment(forKey: "k") }
    try await setting.awaitHeld("first")
    let release = Task.detached {
      defer { setting.proxy.release("first") }
      try await setting.awaitHeld("first", 2)
    }
    #expect(try Self.touch(cache))
    try await release.value
    #expect(try await suspended.value == 2)
  }

  private static func touch(_ cache: PersistentCache<String, Int>) throws -> Bool {
    try cache.touch(forKey: "k", expires: .after(.seconds(600)))
  }

  /// Reads in the calling thread.
  private static func read(_ cache: PersistentCache<String, String>) throws -> String? {
    try cache.value(forKey: "k")
  }

  @Test func `Tasks that read a key at the same time share one request`() async throws {
    let setting = try await Setting()
    let reader = setting.host.cache()
    _ = try await reader.value(forKey: "other")
    var isLate = true
    var round = 0
    while isLate {
      round += 1
      let key = "k\(round)"
      try await setting.writer.cache().setValue("x", forKey: key)
      try await setting.host.settled()
      let before = try setting.host.record.value(of: .fetchedHits)
      setting.proxy.hold("first")
      let start = ContinuousClock.now
      let tasks = (0..<50).map { _ in Task { try await reader.value(forKey: key) } }
      try await setting.awaitHeld("first")
      // The one with the request gives it up, and another one asks again.
      tasks[0].cancel()
      setting.proxy.release("first")
      for task in tasks.dropFirst() { #expect(try await task.value == "x") }
      // After a second each task sends a request.
      isLate = ContinuousClock.now - start > .milliseconds(900)
      if !isLate { #expect(try setting.host.record.value(of: .fetchedHits) - before < 25) }
    }
  }
}
#endif
