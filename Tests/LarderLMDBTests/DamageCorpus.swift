// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The files that are damaged, and what LMDB is made to do with the damaged files that were accepted.

import Foundation
import LarderLMDB

/// Healthy files of several kinds, each with an older state of itself.
struct Corpus {
  let directory: String
  private(set) var images: [Image] = []
  private(set) var older: [[UInt8]] = []

  /// Makes the files, once; another process that names the same directory gets the same ones.
  init(directory: String, seed: UInt64) throws {
    self.directory = directory
    for number in 0..<5 {
      let path = directory + "/base \(number)"
      if !FileManager.default.fileExists(atPath: path) {
        try Self.make(number, at: path, seed: seed &+ UInt64(number))
      }
      images.append(Image(Array(try Data(contentsOf: URL(fileURLWithPath: path)))))
      older.append(Array(try Data(contentsOf: URL(fileURLWithPath: path + " older"))))
    }
  }

  private static func make(_ number: Int, at path: String, seed: UInt64) throws {
    let scratch = try ScratchDirectory()
    let environment = try RawEnvironment(scratch.path)
    var workload = Workload(seed: seed)
    workload.keySpace = [40, 300, 100, 60, 200][number]
    workload.operations = [15, 30, 20, 20, 20][number]
    workload.largestValue = [2_000, 200, 9_000, 6_000, 3_000][number]
    if number == 3 { workload.tables = [.init(name: "numbers", flags: 8, keyBytes: 8)] }
    if number == 4 { workload.tables += (0..<40).map { .init(name: "table \($0)") } }
    // Enough of each for every kind of damage to have something to hit.
    try environment.write { transaction in
      let table = try transaction.table("numbers", 8 | RawEnvironment.create)
      for key in 0..<150 {
        try transaction.put(table, integerKey(key &* 0x9E37_79B1), workload.random.bytes(150))
      }
      for key in 0..<3 {
        try transaction.put(table, integerKey(key), workload.random.bytes(5_000))
      }
    }
    let reader = try environment.begin(readOnly: true)
    for _ in 0..<16 { try environment.write { try workload.work($0) } }
    reader.abort()
    try FileManager.default.copyItem(atPath: environment.dataPath, toPath: path + " older")
    for _ in 0..<4 { try environment.write { try workload.work($0) } }
    try FileManager.default.copyItem(atPath: environment.dataPath, toPath: path)
  }

  /// Damaged file number `index`: kinds and bases take turns.
  func damaged(_ index: Int, seed: UInt64) -> (kind: Damage, bytes: [UInt8], isChanged: Bool) {
    let kind = Damage.allCases[index % Damage.allCases.count]
    let base = index / Damage.allCases.count % images.count
    var random = SeededGenerator(seed: seed &+ UInt64(index) &* 0x1_0001)
    var image = images[base]
    image.damage(kind, older: older[base], random: &random)
    return (kind, image.bytes, image.bytes != images[base].bytes)
  }

  /// Writes a file to verify.
  func write(_ bytes: [UInt8], to name: String = "damaged.mdb") throws -> String {
    let path = directory + "/" + name
    try Data(bytes).write(to: URL(fileURLWithPath: path))
    return path
  }
}

/// The operations of the other process on the accepted files.
enum Survivor {
  static func outlives(directory: String, seed: UInt64) throws -> Bool {
    let corpus = try Corpus(directory: directory, seed: seed)
    let list = try String(contentsOfFile: directory + "/accepted", encoding: .utf8)
    _ = FileManager.default.createFile(atPath: directory + "/log", contents: nil)
    let log = FileHandle(forWritingAtPath: directory + "/log")!
    let place = directory + "/survivor"
    try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
    var (whole, refused) = (0, 0)
    for line in list.split(separator: "\n") {
      let index = Int(line)!
      let (kind, bytes, _) = corpus.damaged(index, seed: seed)
      log.write(Data("\(index) \(kind)\n".utf8))
      let path = try corpus.write(bytes, to: "survivor/data.mdb")
      do {
        try exercise(place, seed: seed &+ UInt64(index))
        whole += 1
      } catch let error as RawError {
        refused += 1
        log.write(Data("LMDB says \(error.code)\n".utf8))
      }
      let report = try StructuralVerifier.verify(path: path)
      guard report.isSound else {
        log.write(Data("then unsound: \(report.findings.prefix(3))\n".utf8))
        return false
      }
    }
    log.write(Data("\(whole) read and written, \(refused) refused by LMDB; survived all\n".utf8))
    return true
  }

  /// Reads each byte of each table, writes in several transactions, empties the tables.
  private static func exercise(_ directory: String, seed: UInt64) throws {
    let environment = try RawEnvironment(directory, tables: 128)
    var random = SeededGenerator(seed: seed)
    let reader = try environment.begin(readOnly: true)
    let main = try reader.table(nil)
    var tables = [main]
    for key in reader.scan(main).keys {
      // A key that is not the name of a table is refused.
      let name = String(decoding: key, as: UTF8.self)
      if let table = try? reader.table(name) { tables.append(table) }
    }
    var keys: [[[UInt8]]] = []
    for table in tables {
      let scan = reader.scan(table)
      guard scan.isWhole else { throw RawError(code: -1) }
      keys.append(scan.keys)
    }
    try reader.commit()

    for round in 0..<4 {
      try environment.write { transaction in
        for (table, keys) in zip(tables, keys) where !keys.isEmpty {
          for _ in 0..<15 {
            let key = keys[random.below(keys.count)]
            // In the main table, a name is not a key to be written.
            if table == main, key.first != 0xFF { continue }
            if random.chance(2) {
              _ = try transaction.delete(table, key)
            } else {
              try transaction.put(table, key, random.bytes(random.below(3_000)))
            }
            if random.chance(3) {
              let other = random.bytes(key.count)
              if table != main { try transaction.put(table, other, random.bytes(100)) }
            }
          }
          if round == 3 {
            for key in keys where table != main { _ = try transaction.delete(table, key) }
          }
          if round == 3, table != main, random.chance(2) {
            try transaction.drop(table, andForget: false)
          }
        }
      }
    }
  }
}
