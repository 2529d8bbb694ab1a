// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Checks that LarderPersistDriver does what Hummingbird documents of a PersistDriver, and what its driver
// in memory does, and that `create` is atomic among processes. scripts/example runs it:
//
//   swift run --package-path scripts/examples --scratch-path .build-examples check-persist

import Foundation
import Hummingbird
import HummingbirdLarder
import Larder

do {
  if CommandLine.arguments.count == 3, CommandLine.arguments[1] == "create" {
    try await Race(path: CommandLine.arguments[2]).takePart()
  } else {
    exit(try await checkDrivers() ? 0 : 1)
  }
} catch {
  print("check-persist: \(error)")
  exit(1)
}

func checkDrivers() async throws -> Bool {
  let path = NSTemporaryDirectory() + "larder-persist-\(getpid())"
  let store = try SharedStore(at: path)
  let driver = LarderPersistDriver(store)
  var violations = try await Laws(driver: MemoryPersistDriver(), name: "in memory").check()
  violations += try await Laws(driver: driver, name: "Larder").check()
  let created = try Race(path: path).run()
  if created.reduce(0, +) != Race.keys {
    violations.append("each of \(Race.keys) keys is created by one process, not \(created)")
  }
  store.close()
  try FileManager.default.removeItem(atPath: path)
  for violation in violations { print("WRONG: \(violation)") }
  print("\(Race.keys) keys created by four processes: \(created); \(violations.count) violations")
  return violations.isEmpty
}
