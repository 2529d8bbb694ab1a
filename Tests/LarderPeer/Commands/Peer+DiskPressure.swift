// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Commands on a disk that is too small.
//
//   squeeze SEED COUNT         sets, reads and removes entries of all sizes at random, COUNT times
//                              -> squeezed WRITES FULL MISTAKES MAPPED
//   ballast FILE SEED          fills the disk and frees it again, over and over, until the next line
//                              -> ok

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

extension Peer {
  func squeeze(_ words: [Substring]) throws -> String {
    if words[0] == "ballast" { return try ballast(String(words[1]), try number(words[2])) }
    var random = SeededRandom(seed: UInt64(try number(words[1])))
    let store = try store
    var (writes, full, mistakes, mapped) = (0, 0, 0, 0)
    func value(_ key: Int) -> [UInt8] {
      let length = [0, 9, 200, 1900, 2500, 30_000, 250_000].randomElement(using: &random)!
      return [UInt8](repeating: UInt8(key & 255), count: length + key % 50)
    }
    for _ in 0..<(try number(words[2])) {
      let key = Int.random(in: 0..<2000, using: &random)
      do {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<12: try store.setBytes(value(key), forKey: key)
        case 12:
          try store.setBytes(value(key), forKey: key, expires: .after(.milliseconds(30)))
        case 13..<15: try store.remove(forKey: key)
        case 15:
          let values = (key..<key + 20).map { ($0, value($0)) }
          try store.write { transaction in
            for (key, value) in values { try transaction.setBytes(value, forKey: key) }
          }
        case 16 where random.chance(10): try store.removeAll()
        case 17:
          let cache = try numbers
          for key in 5000..<5010 { cache[key] = String(repeating: "x", count: 3000) }
        default: break
        }
        writes += 1
      } catch let error as StoreError where error.code == .storageFull {
        full += 1
      }
      if try store.core.generation().usesWriteMap { mapped += 1 }
      let other = Int.random(in: 0..<2000, using: &random)
      if let found = try store.bytes(forKey: other) {
        let isWhole = found.count >= other % 50 && found.allSatisfy { $0 == UInt8(other & 255) }
        if !isWhole { mistakes += 1 }
      }
    }
    return "squeezed \(writes) \(full) \(mistakes) \(mapped)"
  }

  private func ballast(_ path: String, _ seed: Int) throws -> String {
    let stop = NextLine()
    var random = SeededRandom(seed: UInt64(seed))
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    let block = [UInt8](repeating: 1, count: 1 << 16)
    while !stop.hasCome {
      var size = try file.status.size
      if random.chance(50) {
        // To the last byte: a call that fails may have written some.
        var count = random.chance(33) ? 20 : Int.max
        while count > 0, (try? file.write(block, at: size)) != nil {
          size += block.count
          count -= 1
        }
      } else {
        try file.truncate(to: random.chance(33) ? 0 : Int.random(in: 0...size, using: &random))
      }
      OSThread.yield()
    }
    stop.join()
    try file.truncate(to: 0)
    return "ok"
  }
}
