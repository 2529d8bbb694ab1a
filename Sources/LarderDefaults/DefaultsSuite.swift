// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// WHERE SUITES ARE
//
//     <data>/larder/defaults/<suite>/     a durable store, one a suite
//
// <data> is $XDG_DATA_HOME, else ~/.local/share; on Apple systems ~/Library/Application Support.
// The suite of `Defaults.shared` has the name of the program: its bundle identifier, or what the
// executable is called.
//
// In the store: namespace "defaults" has the values, keyed by text. Plain values are stored as they
// are, others as CBOR, whatever comes of an import of JSON as JSON. Namespace "defaults.imports" has
// a mark for each suite of `UserDefaults` that was brought over, so that it happens once.

/// The names and places of suites.
package enum DefaultsSuite {
  package static let namespace = "defaults"
  package static let importsNamespace = "defaults.imports"

  /// The directory all suites of this user are in.
  package static var directory: String { FileSystem.dataDirectory + "/larder/defaults" }

  /// The directory of a suite.
  ///
  /// - Throws: ``DefaultsError/Code/invalidSuiteName`` for a name that is not one file name.
  package static func path(of name: String) throws(DefaultsError) -> String {
    func refuse(_ reason: String) -> DefaultsError {
      DefaultsError(
        .invalidSuiteName,
        "\(DefaultsError.shown(name)) cannot name a suite: \(reason). Choose a name such as "
          + "\"com.example.app\".")
    }
    guard !name.isEmpty else { throw refuse("it is empty") }
    guard name.utf8.count <= 200 else { throw refuse("it has more than 200 bytes") }
    guard !name.hasPrefix(".") else { throw refuse("it begins with a dot") }
    guard name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F && $0 != UInt8(ascii: "/") }) else {
      throw refuse("it contains a slash or a control character")
    }
    return directory + "/" + name
  }

  /// Returns a valid suite name made from a program name.
  package static func sanitizedName(_ name: String) -> String {
    let cleaned = String(name.map { $0 == "/" ? "-" : $0 })
    return (try? path(of: cleaned)) == nil ? "default" : cleaned
  }
}
