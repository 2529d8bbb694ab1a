// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder

guard CommandLine.arguments.count > 1 else { fatalError("Usage: SmallClient DIRECTORY") }
let store = try SharedStore(at: CommandLine.arguments[1])
let cache = PersistentCache<String, [String]>(storage: store, namespace: "greetings")
try cache.setValue(["hello"], forKey: "é")
print(try cache.value(forKey: "e\u{301}") ?? cache.value(forKey: "é") ?? [])
