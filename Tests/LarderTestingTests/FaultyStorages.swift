// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Synchronization
import Testing

/// A storage that keeps the laws; what is broken is built from it.
final class DictionaryStorage: Sendable {
  typealias Key = [UInt8]

  let values = Mutex<[Key: [UInt8]]>([:])
  let count = Atomic<Int>(0)

  subscript(key: Key) -> [UInt8]? {
    get { values.withLock { $0[key] } }
    set { values.withLock { $0[key] = newValue } }
  }

  var laws: StorageLaws { laws { $0 } }

  /// The laws of it under keys that are changed on their way.
  func laws(changing change: @escaping @Sendable (String) -> String) -> StorageLaws {
    StorageLaws(
      get: { [self] in self[Key(change($0).utf8)] },
      set: { [self] in self[Key(change($0).utf8)] = $1 },
      remove: { [self] in self[Key(change($0).utf8)] = nil },
      removeAll: { [self] in values.withLock { $0 = [:] } },
      keys: { [self] in values.withLock { $0.keys.map { String(decoding: $0, as: UTF8.self) } } },
      contains: { [self] in self[Key(change($0).utf8)] != nil })
  }
}

/// A storage that breaks a law as real ones do.
struct BrokenDictionary: Sendable, CustomTestStringConvertible {
  let name: String
  let law: StorageLaws.Law
  var isRace = false
  let make: @Sendable () -> StorageLaws

  var testDescription: String { name }

  private init(
    _ name: String, breaks law: StorageLaws.Law, isRace: Bool = false,
    _ change: @escaping @Sendable (DictionaryStorage, inout StorageLaws) -> Void
  ) {
    self.name = name
    self.law = law
    self.isRace = isRace
    make = {
      let storage = DictionaryStorage()
      var laws = storage.laws
      change(storage, &laws)
      return laws
    }
  }

  private init(
    changingKeys name: String, breaks law: StorageLaws.Law = .distinctKeysNeverMeet,
    _ change: @escaping @Sendable (String) -> String
  ) {
    self.name = name
    self.law = law
    make = { DictionaryStorage().laws(changing: change) }
  }

  static let all: [BrokenDictionary] = values + operations + keys + races

  private static let operations: [BrokenDictionary] = [
    BrokenDictionary("sets with a delay of one", breaks: .whatIsSetIsRead) { storage, laws in
      let waiting = Mutex<(String, [UInt8])?>(nil)
      let queue = Box(waiting)
      laws.set = { key, value in
        let last = queue.value.withLock { queue in
          defer { queue = (key, value) }
          return queue
        }
        if let last { storage[Array(last.0.utf8)] = last.1 }
      }
    },
    BrokenDictionary("keeps the first value", breaks: .theLastSetWins) { storage, laws in
      laws.set = { key, value in
        storage.values.withLock { values in
          if values[Array(key.utf8)] == nil { values[Array(key.utf8)] = value }
        }
      }
    },
    BrokenDictionary("keeps the longest value", breaks: .theLastSetWins) { storage, laws in
      laws.set = { key, value in
        storage.values.withLock { values in
          let old = values[Array(key.utf8)] ?? []
          if value.count >= old.count { values[Array(key.utf8)] = value }
        }
      }
    },
    BrokenDictionary("removes nothing", breaks: .removingRemoves) { _, laws in
      laws.remove = { _ in }
    },
    BrokenDictionary("removes only what has bytes", breaks: .removingRemoves) { storage, laws in
      laws.remove = { key in
        if storage[Array(key.utf8)] != [] { storage[Array(key.utf8)] = nil }
      }
    },
    BrokenDictionary("removes below a directory", breaks: .distinctKeysNeverMeet) { storage, laws in
      laws.remove = { key in
        storage.values.withLock { values in
          values = values.filter {
            $0.key != Array(key.utf8) && !$0.key.starts(with: Array("\(key)/".utf8))
          }
        }
      }
    },
    BrokenDictionary("refuses to remove what is not there", breaks: .removingRemoves) {
      storage, laws in
      struct NotThere: Error {}
      laws.remove = { key in
        let old = storage.values.withLock { $0.removeValue(forKey: Array(key.utf8)) }
        if old == nil { throw NotThere() }
      }
    },
    BrokenDictionary("spares one key of all", breaks: .removeAllRemovesAll) { storage, laws in
      laws.removeAll = {
        storage.values.withLock { values in
          values = values.filter { $0.key == Array("key 7".utf8) }
        }
      }
    },
    BrokenDictionary("remembers what was read", breaks: .removeAllRemovesAll) { storage, laws in
      let memory = DictionaryStorage()
      let (set, remove) = (laws.set, laws.remove)
      laws.get = { key in
        if let known = memory[Array(key.utf8)] { return known }
        let value = storage[Array(key.utf8)]
        memory[Array(key.utf8)] = value
        return value
      }
      laws.set = { key, value in
        memory[Array(key.utf8)] = nil
        try await set(key, value)
      }
      laws.remove = { key in
        memory[Array(key.utf8)] = nil
        try await remove(key)
      }
    },
    BrokenDictionary(
      "forgets every twentieth value", breaks: .randomOperationsFollowADictionary
    ) { storage, laws in
      laws.set = { key, value in
        let count = storage.count.wrappingAdd(1, ordering: .relaxed).newValue
        storage[Array(key.utf8)] = count % 20 == 0 ? nil : value
      }
    },
    BrokenDictionary("gives keys twice", breaks: .keysAreExact) { _, laws in
      let keys = laws.keys!
      laws.keys = {
        let all = try await keys(); return all + all.prefix(1)
      }
    },
    BrokenDictionary("gives no empty key", breaks: .keysAreExact) { _, laws in
      let keys = laws.keys!
      laws.keys = { try await keys().filter { !$0.isEmpty } }
    },
    BrokenDictionary("gives keys it had", breaks: .keysAreExact) { _, laws in
      let (keys, set) = (laws.keys!, laws.set)
      let seen = Box(Mutex<Set<String>>([]))
      laws.set = { key, value in
        _ = seen.value.withLock { $0.insert(key) }
        try await set(key, value)
      }
      laws.keys = {
        let now = try await keys()
        return seen.value.withLock { Array($0.union(now)) }
      }
    },
    BrokenDictionary("contains no empty value", breaks: .containsAgreesWithGet) { storage, laws in
      laws.contains = { storage[Array($0.utf8)]?.isEmpty == false }
    },
  ]

  private static let values: [BrokenDictionary] = [
    BrokenDictionary("cuts long values", breaks: .valuesOfAnySizeComeBack) { storage, laws in
      laws.set = { storage[Array($0.utf8)] = Array($1.prefix(65_535)) }
    },
    BrokenDictionary("loses zeros at the end", breaks: .valuesOfAnySizeComeBack) {
      storage, laws in
      laws.set = { key, value in
        var value = value
        while value.count > 8, value.last == 0 { value.removeLast() }
        storage[Array(key.utf8)] = value
      }
    },
    BrokenDictionary("takes no bytes for nothing", breaks: .theLastSetWins) { storage, laws in
      laws.set = { storage[Array($0.utf8)] = $1.isEmpty ? nil : $1 }
    },
    BrokenDictionary("takes values for text", breaks: .whatIsSetIsRead) { storage, laws in
      laws.set = { storage[Array($0.utf8)] = Array(String(decoding: $1, as: UTF8.self).utf8) }
    },
  ]

  private static let keys: [BrokenDictionary] = [
    BrokenDictionary(changingKeys: "ends keys at a NUL") { key in
      String(decoding: key.utf8.prefix { $0 != 0 }, as: UTF8.self)
    },
    BrokenDictionary(changingKeys: "knows no capitals") { $0.lowercased() },
    BrokenDictionary(changingKeys: "cuts keys at 255 bytes") { String($0.prefix(255)) },
    BrokenDictionary(changingKeys: "cuts keys at 511 bytes") { String($0.prefix(511)) },
    BrokenDictionary(changingKeys: "makes file names of keys") { key in
      String(key.map { $0 == "/" || $0 == "\\" || $0 == ":" ? "_" : $0 })
    },
    BrokenDictionary(changingKeys: "trims keys") { key in
      String(key.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    },
    BrokenDictionary(changingKeys: "resolves directories") { key in
      key.split(separator: "/").filter { $0 != "." }.joined(separator: "/")
    },
    BrokenDictionary(changingKeys: "reads keys as numbers") { key in
      Int(key).map { "\($0)" } ?? key
    },
    BrokenDictionary(changingKeys: "drops what has no width") { key in
      String(String.UnicodeScalarView(key.unicodeScalars.filter { $0 != "\u{FEFF}" }))
    },
    BrokenDictionary(changingKeys: "takes a hash of 8 bits for the key") { key in
      "\(key.utf8.reduce(5381) { ($0 &* 33 &+ Int($1)) & 0xFF })"
    },
  ]

  private static let races: [BrokenDictionary] = [
    BrokenDictionary(
      "replaces all to set one", breaks: .concurrentWritersLoseNothing, isRace: true
    ) { storage, laws in
      laws.set = { key, value in
        var all = storage.values.withLock { $0 }
        all[Array(key.utf8)] = value
        let replaced = all
        storage.values.withLock { $0 = replaced }
      }
    },
    BrokenDictionary(
      "sets in two halves", breaks: .concurrentReadersSeeWholeValues, isRace: true
    ) { storage, laws in
      laws.set = { key, value in
        let old = storage[Array(key.utf8)] ?? []
        let half = value.count / 2
        storage[Array(key.utf8)] = Array(value.prefix(half)) + Array(old.dropFirst(half))
        storage[Array(key.utf8)] = value
      }
    },
    BrokenDictionary(
      "removes before it sets", breaks: .concurrentReadersSeeWholeValues, isRace: true
    ) { storage, laws in
      laws.set = { key, value in
        storage[Array(key.utf8)] = nil
        storage[Array(key.utf8)] = value
      }
    },
    BrokenDictionary(
      "sets the neighbour for a moment", breaks: .concurrentReadersSeeWholeValues, isRace: true
    ) { storage, laws in
      laws.set = { key, value in
        let neighbour = Array((key == "left" ? "right" : key).utf8)
        let old = storage[neighbour]
        storage[neighbour] = value
        storage[neighbour] = old
        storage[Array(key.utf8)] = value
      }
    },
    BrokenDictionary(
      "now and then reads the value before", breaks: .concurrentReadersSeeWholeValues,
      isRace: true
    ) { storage, laws in
      let before = DictionaryStorage()
      laws.set = { key, value in
        let old = storage.values.withLock { values in
          defer { values[Array(key.utf8)] = value }
          return values[Array(key.utf8)]
        }
        before[Array(key.utf8)] = old ?? value
      }
      laws.get = { key in
        let count = storage.count.wrappingAdd(1, ordering: .relaxed).newValue
        return count % 7 == 0 ? before[Array(key.utf8)] : storage[Array(key.utf8)]
      }
    },
  ]
}

private final class Box<Value>: Sendable {
  let value: Mutex<Value>
  init(_ value: consuming sending Mutex<Value>) { self.value = value }
}
