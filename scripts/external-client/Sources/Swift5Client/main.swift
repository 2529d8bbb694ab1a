// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Code of the older libraries' time: its completions change local variables.
import Foundation
import Larder

// The only thread is the main one.
final class Drawer: CacheStorage, @unchecked Sendable {
  var contents: [String: Data] = [:]
  subscript(key: String) -> Data? {
    get { contents[key] }
    set { contents[key] = newValue }
  }
}

func useCompletions() {
  var calls = 0
  let memory = MemoryStorage<String, Int>()
  memory.set(1, forKey: "a") { _ in calls += 1 }
  memory.asStorage().retrieve(forKey: "a") { _ in calls += 1 }
  memory.singleKey("a").retrieve { _ in calls += 1 }
  memory.remove(forKey: "a") { _ in calls += 1 }
  let counted = Storage<String, Int>(
    storageName: "counted",
    retrieve: { key, completion in
      calls += 1
      memory.retrieve(forKey: key, completion: completion)
    },
    set: { value, key, completion in
      calls += 1
      memory.set(value, forKey: key, completion: completion)
    })
  let cache = PersistentCache<String, Int>(storage: Drawer() as CacheStorage?, namespace: "n")
  cache["a"] = 1
  cache.clearMemoryCache { calls += 1 }
  print(calls >= 4, counted.storageName, cache["a"] ?? 0)
}

useCompletions()
