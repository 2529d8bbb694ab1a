// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

/// The rule by which a power cut selects the unsynced writes that reached the disk.
struct DiskFate: CustomStringConvertible {
  enum Manner: CaseIterable {
    /// Nothing but what had to.
    case nothing
    /// Everything, as if the process had only been killed.
    case everything
    /// Each page separately; each sector separately.
    case pages, sectors
    /// The first writes, in their order, the last of them torn.
    case inOrder
    /// All pages but a few.
    case almostEverything
  }

  let manner: Manner
  /// The number of bytes that are written completely or not at all.
  let unit: Int
  /// Files that are mapped and written to by others: what they were in the end.
  let mappedInTheEnd: [String: [UInt8]]
  private var random: SeededRandom
  private var limit = 0

  /// - Parameter manner: A random one by default.
  init(mapped: [String: [UInt8]], random: SeededRandom, manner: Manner? = nil) {
    self.random = random
    let choice = Manner.allCases.randomElement(using: &self.random)!
    self.manner = manner ?? choice
    let manner = self.manner
    unit = manner == .sectors || manner == .inOrder ? 512 : 4096
    mappedInTheEnd = mapped
  }

  var description: String { "\(manner)" }

  /// Returns how many of a directory's changes are kept.
  mutating func kept(ofChanges count: Int) -> Int {
    switch manner {
    case .nothing: 0
    case .everything: count
    case .almostEverything: random.chance(80) ? count : Int.random(in: 0...count, using: &random)
    default: Int.random(in: 0...count, using: &random)
    }
  }

  mutating func beginFile(writes: Int) { limit = Int.random(in: 0...writes, using: &random) }

  /// Whether a page or a sector of a write is there.
  mutating func keeps(write index: Int) -> Bool {
    switch manner {
    case .nothing: false
    case .everything: true
    case .pages, .sectors: random.chance(50)
    case .inOrder: index < limit || (index == limit && random.chance(50))
    case .almostEverything: random.chance(93)
    }
  }

  /// Whether a file is as long as it was, although its end is not there.
  mutating func isLong() -> Bool { manner == .everything || random.chance(30) }

  /// The content of a file that others map; nil: it is not there.
  mutating func mapped(_ name: String, written: [UInt8]) -> [UInt8]? {
    guard let final = mappedInTheEnd[name] else { return written }
    switch Int.random(in: 0..<4, using: &random) {
    case 0: return nil
    case 1: return [UInt8](repeating: 0, count: final.count)
    case 2: return written
    default: return final
    }
  }
}
