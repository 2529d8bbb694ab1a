// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// The file `CURRENT`, which names the current generation of a store.
package enum CurrentPointer {
  /// Reads the number of the current generation.
  ///
  /// - Returns: The number, or `nil` if `CURRENT` is missing or damaged.
  /// - Throws: `SystemError` if the file cannot be read for another reason, such as a lack of
  ///   descriptors. The caller must not treat that as a missing store.
  package static func read(in directory: StoreDirectory) throws(SystemError) -> UInt64? {
    do throws(SystemError) {
      let file = try OwnedFile(path: directory.current, writable: false)
      return parse(try file.read(count: 256, at: 0))
    } catch {
      if error.isNoSuchFile { return nil }
      throw error
    }
  }

  package static func parse(_ bytes: [UInt8]) -> UInt64? {
    let text = String(decoding: bytes, as: UTF8.self)
    guard text.hasSuffix("\n") else { return nil }
    let words = text.dropLast().split(separator: " ", omittingEmptySubsequences: false)
    guard
      words.count == 4, words[0] == "larder", words[1] == "1", words[2].hasPrefix("g-"),
      let number = UInt64(words[2].dropFirst(2)), isPossible(number),
      words[3] == checksum(number)
    else { return nil }
    return number
  }

  /// Whether a generation can have this number: commit versions have room for a million.
  static func isPossible(_ number: UInt64) -> Bool { number > 0 && number < 1 << 20 }

  package static func text(_ number: UInt64) -> String {
    "larder 1 g-\(number) \(checksum(number))\n"
  }

  private static func checksum(_ number: UInt64) -> String {
    String(XXH64.hash(Array("larder 1 g-\(number)".utf8)), radix: 16)
  }

  /// Makes a generation the current one, for all processes at once.
  ///
  /// - Parameter synchronous: Whether the new name is on the disk when this returns. A process that is killed before
  ///   leaves a name that is not: see `SyncedNames.swift`.
  package static func write(
    _ number: UInt64, in directory: StoreDirectory, synchronous: Bool
  ) throws(SystemError) {
    let temporary = directory.current + ".tmp"
    let file = try OwnedFile(path: temporary, creation: .createIfMissing)
    try file.truncate(to: 0)
    try file.write(Array(text(number).utf8), at: 0)
    if synchronous { try file.synchronize() }
    // `rename` replaces everything except a directory.
    if let status = try FileSystem.status(of: directory.current, followingLinks: false),
      status.isDirectory
    {
      FileSystem.removeTree(directory.current)
    }
    try FileSystem.rename(temporary, to: directory.current)
    try fault(throwing: .currentRenamed)
    if synchronous { try FileSystem.synchronizeDirectory(directory.root) }
  }

  /// Returns the number of the generation directory `name`, or `nil` for any other name.
  package static func generation(named name: String) -> UInt64? {
    guard name.hasPrefix("g-"), let number = UInt64(name.dropFirst(2)), name == "g-\(number)"
    else { return nil }
    return number
  }

  /// Returns the numbers of the existing generation directories in ascending order.
  package static func generations(
    in directory: StoreDirectory
  ) throws(SystemError) -> [UInt64] {
    try FileSystem.names(in: directory.root).compactMap { generation(named: $0) }.sorted()
  }
}
