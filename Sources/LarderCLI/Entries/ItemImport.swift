// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderCoding
import LarderDynamic
import LarderEngine

/// How the items of an SQLite file of PersistentCacheKit are taken.
struct PersistentCacheKitImportOptions {
  let keyType: KeyTextFormat
  /// Whether a MixedPersistentCache is to read them.
  let isMixed: Bool

  init(_ keyType: KeyTextFormat, isMixed: Bool = false) {
    self.keyType = keyType
    self.isMixed = isMixed
  }
}

extension EntryTransfer {
  /// Stores what an SQLite file of PersistentCacheKit holds.
  func importItems(
    _ first: [UInt8], _ read: () throws -> [UInt8], into batch: inout Batch,
    _ options: PersistentCacheKitImportOptions
  ) throws {
    let file = operands.file == "-" ? "standard input" : operands.file
    try refuseUnfinished()
    var bytes = first
    while true {
      let more = try read()
      if more.isEmpty { break }
      bytes += more
    }
    let tally: PersistentCacheKitFile.Tally
    var number = 0
    do {
      tally = try keeping(&batch) { batch throws in
        try PersistentCacheKitFile(bytes).entries(
          namespace: operands.namespace ?? "", type: options.keyType
        ) { entry in
          var entry = entry
          if options.isMixed {
            let value = MixedValue(importing: entry.payload, codec: .propertyList)
            entry.payload = try CBORCodec().encode(value)
            entry.codec = CodecIdentifier.cbor.rawValue
          }
          number += 1
          try batch.add(entry, place: number)
        }
      }
    } catch let error as DynamicObjectError {
      throw failure(error.code.rawValue, error.message, in: file, batch)
    } catch let refused as Batch.Refused {
      // Items have no numbers of their own.
      let key = KeyTextFormat.display(tag: options.keyType.tag, bytes: refused.key.bytes)
      let place =
        refused.isAlone ? "The item \"\(key)\": " : "Nothing from \"\(key)\" on is stored. "
      throw failure(
        refused.error.code.rawValue, place + refused.error.message, in: file, batch,
        [("key", .text(key))])
    }
    say(tally, stored: batch.stored)
  }

  private func failure(
    _ code: String, _ message: String, in file: String, _ batch: Batch,
    _ details: [(String, CBORValue)] = []
  ) -> ToolError {
    ToolError(
      code, "\(file): \(message) (\(TextLayout.count(batch.stored, "entry", "entries")) stored)",
      details: details + [("stored", CBORValue(batch.stored))])
  }

  /// What SQLite has not yet written into the file would be missing, or half there.
  private func refuseUnfinished() throws {
    for suffix in ["-wal", "-journal"] where operands.file != "-" {
      let path = operands.file + suffix
      let size = try? FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
      if let size, size > 0 {
        throw ToolError(
          "file",
          "\(operands.file) has changes beside it, in \(path). End the program that uses it; if it "
            + "was killed, open the file with `sqlite3` once, with any query.")
      }
    }
  }

  private func say(_ tally: PersistentCacheKitFile.Tally, stored: Int) {
    let expired = tally.taken - stored
    if arguments.json {
      Console.json(
        .object([
          ("stored", CBORValue(stored)), ("leftOut", CBORValue(expired)),
          ("removed", CBORValue(tally.removed)), ("others", CBORValue(tally.others)),
          ("unreadable", CBORValue(tally.unreadable)),
        ]))
      return
    }
    var parts: [String] = []
    if expired > 0 { parts.append("\(TextLayout.grouped(expired)) expired or stored already") }
    if tally.removed > 0 { parts.append("\(TextLayout.grouped(tally.removed)) removed") }
    if tally.others > 0 {
      parts.append("\(TextLayout.grouped(tally.others)) of other namespaces or kinds of key")
    }
    if tally.unreadable > 0 { parts.append("\(TextLayout.grouped(tally.unreadable)) unreadable") }
    Console.line(
      "Imported \(TextLayout.count(stored, "entry", "entries"))"
        + (parts.isEmpty ? "." : ", left out: " + parts.joined(separator: ", ") + "."))
  }
}
