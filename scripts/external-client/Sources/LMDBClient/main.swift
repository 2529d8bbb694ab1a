// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// LMDB for a package outside this one, without anything of Larder's engine. The parent starts itself
// several times; each child files its number under a key of the program's own type and adds to a
// count. The parent walks what they left, and copies it.

import Foundation
import LarderLMDB

struct Visit: TableKey {
  let number: UInt64
  static var keyKind: Table.Keys { .integers }
  func withKeyBytes<R>(_ body: (RawSpan) -> R) -> R { number.withKeyBytes(body) }
}

func expect(_ condition: Bool, _ text: String) {
  guard !condition else { return }
  print("expected: \(text)")
  exit(1)
}

func isRefused(_ path: String) -> Bool {
  do {
    _ = try Environment(at: path)
    return false
  } catch LMDBError.Code.alreadyOpen {
    return true
  } catch {
    return false
  }
}

let arguments = CommandLine.arguments
let path =
  arguments.count > 2
  ? arguments[2]
  : NSTemporaryDirectory() + "larder-lmdb-client-\(ProcessInfo.processInfo.processIdentifier)"
let environment = try Environment(at: path, .init(mapSize: 1 << 26, durability: .onDemand))
let visits = try environment.table("visits", keys: .integers)
let counts = try environment.table("counts")

if arguments.count > 2, let number = UInt64(arguments[1]) {
  try environment.withWriteTransaction { transaction in
    try transaction.put("visit \(number)", forKey: Visit(number: number), in: visits)
    // Borrowed bytes end with the next change of the transaction; the compiler enforces that.
    let old = try transaction.value(forKey: "all", in: counts)?.withUnsafeBytes { $0[0] } ?? 0
    try transaction.put([old + 1], forKey: "all", in: counts)
  }
  try environment.close()
} else {
  let children = try (1...4).map { number in
    let child = Process()
    child.executableURL = Bundle.main.executableURL
    child.arguments = ["\(number)", path]
    try child.run()
    return child
  }
  for child in children {
    child.waitUntilExit()
    expect(child.terminationStatus == 0, "that a child succeeds")
  }
  try environment.withReadTransaction { snapshot in
    expect(try snapshot.bytes(forKey: "all", in: counts) == [4], "a count of four")
    var cursor = try snapshot.cursor(over: visits, KeyRange.after(UInt64(1)).reversed)
    var found: [UInt64] = []
    while try cursor.next() {
      found.append(cursor.integerKey)
      expect(cursor.valueBytes == Array("visit \(cursor.integerKey)".utf8), "the child's value")
    }
    expect(found == [4, 3, 2], "the later visits, the last one first")
  }
  expect(isRefused(path), "that it is open once")
  try environment.copy(to: path + "-copy")
  expect(try Environment.verify(at: path + "-copy").isSound, "a sound copy")
  try environment.close()
  try FileManager.default.removeItem(atPath: path)
  try FileManager.default.removeItem(atPath: path + "-copy")
  print("LMDB alone: four processes, one environment, one copy")
}
