// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Two processes of one program outside this package share a store. The parent starts itself twice:
// the first child writes, the second reads what it wrote, changes it, and computes what is missing;
// the parent, which had read the old value into memory, must see the new one. Then a third child is
// killed between two writes, by the kit: what it acknowledged is there, and the laws of storages
// hold.

import Foundation
import Larder
import LarderTesting

struct Recipe: Codable, Sendable, Equatable {
  var title: String
  var minutes: Int
}

func expect(_ condition: Bool, _ text: String) {
  guard !condition else { return }
  print("expected: \(text)")
  exit(1)
}

let arguments = CommandLine.arguments
let path =
  arguments.count > 2
  ? arguments[2]
  : NSTemporaryDirectory() + "larder-client-\(ProcessInfo.processInfo.processIdentifier)"
let store = try SharedStore(at: path, .init(budget: .megabytes(16)))
let recipes = PersistentCache<String, Recipe>(storage: store, namespace: "recipes")

switch arguments.count > 1 ? arguments[1] : "parent" {
case "first":
  try recipes.setValue(Recipe(title: "Borscht", minutes: 90), forKey: "soup")
case "second":
  expect(recipes["soup"] == Recipe(title: "Borscht", minutes: 90), "what the first child wrote")
  try recipes.setValue(Recipe(title: "Borscht", minutes: 75), forKey: "soup")
  let bread = try await recipes.value(forKey: "bread") { Recipe(title: "Rye", minutes: 240) }
  expect(bread.title == "Rye", "a computed value")
case "third":
  // Writes until it is killed, and prints the committed keys.
  for number in 0..<1_000_000 {
    try recipes.setValue(Recipe(title: "Soup", minutes: number), forKey: "soup \(number)")
    ParentProcess.send("stored \(number)")
  }
default:
  for (name, minutes) in [("first", 90), ("second", 75)] {
    let child = Process()
    child.executableURL = Bundle.main.executableURL
    child.arguments = [name, path]
    try child.run()
    child.waitUntilExit()
    expect(child.terminationStatus == 0, "the \(name) child succeeds")
    expect(recipes["soup"]?.minutes == minutes, "the \(name) child's value, not one from memory")
    expect(recipes["soup"]?.minutes == minutes, "the same from memory")
  }
  expect(recipes["bread"]?.title == "Rye", "what the second child computed")

  let third = try TestExecutable("ExternalClient").start(["third", path])
  try third.wait(for: "stored 9")
  third.kill()
  let last = try third.remainingLines().count + 9
  expect(try third.wait() == .killed, "the third child is killed")
  for number in 0...last {
    expect(recipes["soup \(number)"]?.minutes == number, "what a killed child acknowledged")
  }

  // This build has no fault points: a plan that could never come true is an error.
  do {
    _ = try FaultPlan([.kill(at: .begin)]).environment
    expect(false, "an error of a fault that cannot occur")
  } catch {
    expect("\(error)".contains("FaultInjection"), "the remedy, not \(error)")
  }

  let bytes = PersistentCache<String, [UInt8]>(storage: store, namespace: "laws")
  let laws = StorageLaws(
    get: { try bytes.value(forKey: $0) }, set: { try bytes.setValue($1, forKey: $0) },
    remove: { try bytes.removeValue(forKey: $0) }, removeAll: { try bytes.removeAll() })
  let violations = await laws.violations()
  expect(violations.isEmpty, "a lawful storage, not \(violations)")
  expect(try await countGoodNotes(in: store) == 1, "one good note")
  let findings = try store.verify()
  expect(findings.isEmpty, "a sound store, not \(findings)")
  store.close()
  try FileManager.default.removeItem(atPath: path)
  print("Two processes outside the package shared a store.")
}
store.close()
