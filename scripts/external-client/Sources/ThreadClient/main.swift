// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Threads and tasks of a program outside this package use every facade of one store at the same
// time. `scripts/sanitize thread` builds it with the thread sanitizer and runs it, with the
// suppressions that a program needs: the inlined declarations and the symbols of closures differ from
// those in this package's tests.

import Foundation
import Larder
import LarderDefaults
import LarderObjects

struct Note: Storable, Equatable {
  let id: Int
  var text: String
  static let storedName = "Note"
  static let indexes = [Index<Note>("text", \.text)]
}

func expect(_ condition: Bool, _ text: String) {
  guard !condition else { return }
  print("expected: \(text)")
  exit(1)
}

let path =
  NSTemporaryDirectory() + "larder-threads-\(ProcessInfo.processInfo.processIdentifier)"
let store = try SharedStore(at: path + "/cache", .init(budget: .megabytes(16)))
let numbers = PersistentCache<Int, String>(storage: store, namespace: "numbers")
let texts = PersistentCache<String, [Int]>(storage: store, namespace: "texts")
let notes = ObjectStore(store)
let defaults = try Defaults(at: path + "/defaults")
let rounds = 300

@Sendable func work(_ thread: Int) {
  do {
    for round in 0..<rounds {
      let key = (round * 7 + thread) % 50
      switch (round + thread) % 10 {
      case 0: try numbers.setValue("\(round)", forKey: key)
      case 1: numbers[key] = "\(round)"
      case 2: try texts.setValue([round], forKey: "\(key)")
      case 3: try notes.save(Note(id: key, text: "\(round % 5)"))
      case 4: _ = try notes.objects(Note.self).where(\.text == "3").fetch()
      case 5: try defaults.setValue(round, forKey: "count \(key % 5)")
      case 6: try numbers.removeValue(forKey: key)
      case 7: try store.write { try $0.setBytes([1], forKey: key) }
      case 8: _ = try store.statistics()
      default: if round % 100 == 9 { try store.compact() }
      }
      for key in 0..<20 {
        _ = numbers[key]
        _ = try texts.value(forKey: "\(key)")
        _ = try notes.object(Note.self, id: key)
        _ = try defaults.value(Int.self, forKey: "count \(key % 5)")
      }
    }
  } catch {
    print("thread \(thread): \(error)")
    exit(1)
  }
}

@Sendable func compute() async throws {
  let observer = Task { for try await _ in numbers.values(forKey: 7) {} }
  try await withThrowingTaskGroup(of: Void.self) { group in
    for task in 0..<8 {
      group.addTask {
        for round in 0..<50 {
          let value = try await numbers.value(forKey: 1000 + round) { "\(round)" }
          expect(value == "\(round)", "the computed value")
          try await texts.setValue([task], forKey: "async \(round % 7)")
          try await numbers.setValue("change \(round)", forKey: 7)
        }
      }
    }
    try await group.waitForAll()
  }
  observer.cancel()
  _ = try? await observer.value
}

let ended = DispatchGroup()
for number in 0..<4 {
  ended.enter()
  Thread.detachNewThread {
    work(number)
    ended.leave()
  }
}
try await compute()
await withCheckedContinuation { continuation in
  ended.notify(queue: .global()) { continuation.resume() }
}
let findings = try store.verify()
expect(findings.isEmpty, "a sound store, not \(findings)")
defaults.close()
store.close()
try FileManager.default.removeItem(atPath: path)
print("Threads and tasks of a program outside the package used every facade.")
