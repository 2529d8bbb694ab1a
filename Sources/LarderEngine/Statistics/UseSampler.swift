// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// A collector of short bursts of uses, for a display of the keys in use.
///
/// In contrast to ``AccessSampler`` it samples all keys, and not for the whole time: after each
/// collection the processes record their next uses until the ring is full, at most 8,176 of all
/// processes together, and 496 in a small store. It stores only words of the region for samples.
package final class UseSampler {
  private let table: SharedTable
  /// The store and generation whose processes record.
  package let binding: SharedTable.Binding

  /// The uses of a burst.
  package struct Burst: Sendable {
    package let samples: [Sample]
    /// Whether the ring was full, so that later uses are missing.
    package let isFull: Bool
  }

  /// The longest time in milliseconds between two collections; see ``SharedTable/isSampling(milliseconds:)``.
  private static let longest: UInt64 = 59_000

  /// Claims the sampling of a store.
  ///
  /// - Returns: `nil` if another process samples the store, or the store is missing.
  /// - Throws: `SystemError` if this user must not write to `shared.table`.
  package init?(path: String, interval: Duration) throws(SystemError) {
    guard let (directory, _) = StoreDirectory.find(path),
      let number = try CurrentPointer.read(in: directory),
      let table = try SharedTable(
        mapping: OwnedFile(path: directory.generation(number) + "/shared.table")),
      table.claimSampling(milliseconds: Self.now, until: Self.end(interval))
    else { return nil }
    self.table = table
    binding = table.binding
    table.renewSampling(threshold: .max, until: Self.end(interval))
  }

  deinit { if isWhole { table.endSampling() } }

  /// Whether the file has its size: access to the memory of one that was cut short ends the process.
  private var isWhole: Bool { table.fileStatus?.size == table.shape.fileSize }

  private static var now: UInt64 { Clocks.monotonicNanoseconds() / 1_000_000 }

  private static func end(_ interval: Duration) -> UInt64 {
    now + min(2 * Clocks.nanoseconds(of: interval) / 1_000_000 + 2000, longest)
  }

  /// Collects the recorded uses, and lets the processes record the next burst. A table that was cut short
  /// has none.
  package func collect(next interval: Duration) -> Burst {
    var samples: [Sample] = []
    guard isWhole else { return Burst(samples: [], isFull: false) }
    let isFull = table.takeSamples(into: &samples)
    table.renewSampling(threshold: .max, until: Self.end(interval))
    return Burst(samples: samples, isFull: isFull)
  }
}
