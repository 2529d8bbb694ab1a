// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem

/// The oracle of a store that is damaged while processes use it.
///
///     word   0 …  63   issued[key]         64 … 127   acknowledged[key]
///          128         reads               129        values found
///          130         writes              131        typed errors
///          132         every process ends when this is not 0
///          133         the time of the last removal of files, in monotonic nanoseconds
///          140 …       per process: completed operations (a write read back)
final class LiveOracle: Sendable {
  static let keyCount = 48

  enum Count: Int {
    case reads = 128
    case hits, writes, errors, stop, removal
  }

  private let words: SharedWords

  init(path: String) throws { words = try SharedWords(path: path) }

  /// Announces a write of a key.
  func issue(_ key: Int) -> UInt64 { words.add(key) }
  func issued(_ key: Int) -> UInt64 { words[key] }
  func acknowledged(_ key: Int) -> UInt64 { words[64 + key] }
  func acknowledge(_ key: Int, _ sequence: UInt64) { words.raise(64 + key, to: sequence) }

  func add(_ count: Count) { words.add(count.rawValue) }
  func value(_ count: Count) -> UInt64 { words[count.rawValue] }
  func stop() { words[Count.stop.rawValue] = 1 }
  var isOver: Bool { value(.stop) != 0 }

  /// Whether files were removed less than 20 s ago. A process that has them open uses them until its
  /// next check; a process that opens the store in this time creates new files, so neither reads
  /// the writes of the other.
  var isSplit: Bool {
    let last = value(.removal)
    return last != 0 && Clocks.monotonicNanoseconds() &- last < 20_000_000_000
  }

  func noteRemoval() { words[Count.removal.rawValue] = Clocks.monotonicNanoseconds() }

  func progress(_ process: Int) -> UInt64 { words[140 + process] }
  func addProgress(_ process: Int) { words.add(140 + process) }
}
#endif
