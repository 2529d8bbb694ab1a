// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Line: Storable, Equatable {
  let id: Int
  var group: Int
  static let storedName = "Line"
  static let indexes = [Index<Line>("group", \.group)]
}

@Suite(.timeLimit(.minutes(60))) struct ObjectRowsTests {
  let temporary: TemporaryStore
  let objects: ObjectStore
  private let lines = (0..<3000).map { Line(id: $0, group: $0 % 7) }

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
    try objects.save(lines)
  }

  private func rows(_ query: Query<Line>) async throws -> [Line] {
    var found: [Line] = []
    for try await line in query.rows(atMost: .seconds(600)) { found.append(line) }
    return found
  }

  @Test func `The rows of a query are those of a fetch, in its order`() async throws {
    let all = objects.objects(Line.self)
    for query in [
      all, all.limit(700), all.offset(10).limit(600), all.limit(0), all.where(\.group == 3),
      all.sorted(by: \.group, .descending).offset(5), all.filter { $0.id % 2 == 0 },
      all.where { $0.group.isIn([5, 1]) }, all.where(\.group == 99),
    ] {
      #expect(try await rows(query) == query.fetch())
    }
  }

  @Test func `The rows are of one snapshot while others write`() async throws {
    var found: [Line] = []
    for try await line in objects.objects(Line.self).rows(atMost: .seconds(600)) {
      if line.id % 500 == 0 {
        try await objects.save(Line(id: 10_000 + line.id, group: 0))
        try await objects.delete(Line.self, id: 2999 - line.id)
      }
      found.append(line)
    }
    #expect(found == lines)
    #expect(try await rows(objects.objects(Line.self)) != lines)
  }

  @Test func `A loop that ends early, or is cancelled, releases its snapshot`() async throws {
    // More loops than a process has readers.
    for _ in 0..<200 {
      for try await line in objects.objects(Line.self).rows(atMost: .seconds(600))
      where line.id == 5 { break }
    }
    let waiting = AsyncStream<Void>.makeStream()
    let task = Task {
      var count = 0
      for try await _ in objects.objects(Line.self).rows(atMost: .seconds(600)) {
        count += 1
        if count == 10 {
          waiting.continuation.yield()
          while !Task.isCancelled { await Task.yield() }
        }
      }
      return count
    }
    for await _ in waiting.stream { break }
    task.cancel()
    #expect(try await task.value < 3000)
    #expect(try await rows(objects.objects(Line.self)) == lines)
  }

  @Test func `A loop that takes longer than allowed ends with a typed error`() async throws {
    var count = 0
    let error = await #expect(throws: ObjectError.self) {
      for try await _ in objects.objects(Line.self).rows(atMost: .zero) { count += 1 }
    }
    #expect(error?.code == .snapshotExpired && count < 3000)
  }

  @Test func `Rows of a closed store are an error`() async throws {
    objects.close()
    await #expect(throws: StoreError.self) {
      for try await _ in objects.objects(Line.self).rows(atMost: .seconds(600)) {}
    }
  }
}
