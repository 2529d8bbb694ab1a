// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderLMDB
import LarderSystem
import LarderTesting

/// The structural verifier, and its promise: what it accepts, LMDB can read and write.
///
/// An input is a data file. If it is found sound, LMDB opens it, walks every table, writes and
/// removes, and commits; if LMDB dies of that, the verifier has a hole, and the driver sees the
/// death.
struct VerifierFuzz: FuzzTarget {
  let name = "verifier"
  private static let tables = ["entries", "chunks", "expiries"]

  private static func directory() -> String {
    (FileSystem.environment("LARDER_FUZZ_DIRECTORY") ?? "/tmp") + "/lmdb-\(ProcessIdentity.pid)"
  }

  func seeds(_ random: inout SeededRandom) throws -> [[UInt8]] {
    try (0..<4).map { try seed(&random, rounds: $0 * 3 + 1) }
  }

  private func seed(_ random: inout SeededRandom, rounds: Int) throws -> [UInt8] {
    let path = Self.directory() + "-seed"
    TestFiles.removeAll(path)
    try TestFiles.makeDirectory(path)
    defer { TestFiles.removeAll(path) }
    let environment = try EnvironmentHandle(
      path: path, options: .init(mapSize: 1 << 24, synchronous: false))
    for round in 0..<rounds {
      var transaction = try WriteTransaction(in: environment)
      let entries = try transaction.makeTable("entries", keys: .integers)
      let chunks = try transaction.makeTable("chunks", keys: .integers)
      let expiries = try transaction.makeTable("expiries", keys: .bytes)
      for key in 0..<14 {
        let value = random.bytes([20, 300, 1900, 6000][(key + round) % 4])
        let number = UInt64(key * 1_000_003) &* UInt64(round % 2 + 1)
        try put(value, forKey: number, in: key % 5 == 0 ? chunks : entries, &transaction)
        try transaction.put([], forKey: random.bytes(16), in: expiries)
      }
      try transaction.put(random.bytes(80), forKey: Array("meta".utf8), in: .main)
      _ = try transaction.remove(key: UInt64(round * 1_000_003), in: entries)
      try transaction.commit()
    }
    environment.close()
    return try TestFiles.contents(of: path + "/data.mdb")
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    let path = Self.directory()
    TestFiles.removeAll(path)
    guard (try? TestFiles.makeDirectory(path)) != nil,
      (try? TestFiles.write(bytes, to: path + "/data.mdb")) != nil
    else { return 0 }
    var outcome = DecodingFacts()
    guard
      let quick = try? StructuralVerifier.quickCheck(path: path + "/data.mdb", atLeast: 0),
      let report = try? StructuralVerifier.verify(path: path + "/data.mdb")
    else { return 1 }
    law(quick.isEmpty || !report.isSound, "the quick check finds what the full one does not")
    for finding in report.findings.prefix(3) { outcome.add("\(finding.code)\(finding.detail)") }
    guard report.isSound else { return outcome.value }
    outcome.add(Int(report.pagesReached % 7))
    do {
      // The map size in the file is not trusted; the engine passes the size of its creation.
      let environment = try EnvironmentHandle(
        path: path, options: .init(mapSize: 1 << 24, synchronous: false))
      defer { environment.close() }
      try walk(environment, &outcome)
      try write(environment)
      let after = try StructuralVerifier.verify(path: path + "/data.mdb")
      law(after.isSound, "sound before LMDB wrote to it, not after: \(after.findings.first!)")
    } catch {
      outcome.add("\(error)")
    }
    return outcome.value
  }

  private func walk(_ environment: EnvironmentHandle, _ outcome: inout DecodingFacts) throws {
    let transaction = try ReadTransaction(in: environment)
    for name in Self.tables {
      let keys: Table.Keys = name == "expiries" ? .bytes : .integers
      guard let table = try transaction.table(name, keys: keys) else { continue }
      outcome.add(try count(table, transaction) % 5)
      if name != "expiries" { _ = try transaction.value(forKey: 1_000_003 as UInt64, in: table) }
    }
    outcome.add(try count(.main, transaction))
  }

  private func count(_ table: TableHandle, _ transaction: borrowing ReadTransaction) throws -> Int {
    var cursor = try Cursor(over: table, in: transaction)
    var more = try cursor.moveToFirst()
    var entries = 0
    var sum: UInt64 = 0
    while more {
      entries += 1
      // Touches every byte: a value that reaches beyond the file is met here.
      sum &+= XXH64.hash(cursor.currentValue) &+ XXH64.hash(cursor.currentKey)
      more = try cursor.moveToNext()
    }
    law(sum != 1, "never")
    return entries
  }

  private func write(_ environment: EnvironmentHandle) throws {
    for round in 0..<3 {
      var transaction = try WriteTransaction(in: environment)
      let entries = try transaction.makeTable("entries", keys: .integers)
      let value = [UInt8](repeating: UInt8(round), count: [100, 9000, 30_000][round])
      try put(value, forKey: UInt64(round * 5_000_017), in: entries, &transaction)
      for key in 0..<6 {
        _ = try transaction.remove(key: UInt64(key * 2_000_006), in: entries)
      }
      try transaction.commit()
    }
  }

  private func put(
    _ value: [UInt8], forKey key: UInt64, in table: TableHandle,
    _ transaction: inout WriteTransaction
  ) throws {
    try value.withRawSpan { value throws(LMDBError) in
      try transaction.put(value, forKey: key, in: table)
    }
  }
}
#endif
