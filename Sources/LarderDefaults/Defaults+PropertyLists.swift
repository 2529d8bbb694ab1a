// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Foundation
internal import LarderCoding
internal import LarderEngine

extension Defaults {
  /// Returns the values of the suite as a property list: a dictionary by key.
  ///
  /// - Parameters:
  ///   - keys: The keys to include, or `nil` for all. Keys without a value are left out.
  ///   - format: The format of the property list.
  /// - Returns: The encoded property list.
  /// - Throws: ``DefaultsError/Code/propertyList`` with the key of a value that a property list
  ///   cannot hold; ``value(_:forKey:)``'s errors.
  /// - Complexity: Reads every value.
  public func propertyList(
    of keys: [String]? = nil, format: PropertyListSerialization.PropertyListFormat = .xml
  ) throws -> Data {
    var values: [String: PropertyListValue] = [:]
    for key in try keys ?? self.keys() {
      guard let stored = try storedValue(forKey: key) else { continue }
      // Swift treats strings of different normalisation as equal, and a dictionary has one of them.
      guard values[key] == nil || keys != nil else {
        throw PropertyListValue.refused(
          key, "another key differs from it only in its form of Unicode")
      }
      values[key] = try PropertyListValue(stored, key: key)
    }
    let changed = values.first { PropertyListValue.hasMark($0.key) || $0.value.isChangedByXML }
    if format != .binary, let key = changed?.key {
      throw PropertyListValue.refused(
        key,
        "XML has no date that is not a number, before the year 1 or after 30,000, and no text that begins with "
          + "a byte order mark (U+FEFF). Use the format .binary")
    }
    do {
      return try PropertyListSerialization.data(
        fromPropertyList: values.mapValues(\.object), format: format, options: 0)
    } catch {
      throw DefaultsError(
        .propertyList, "The values cannot be written as a property list: \(error).",
        underlyingError: error)
    }
  }

  /// Stores the values of a property list in one transaction: all of them, or none.
  ///
  /// ```swift
  /// let file = URL(fileURLWithPath: "/etc/player/defaults.plist")
  /// try Defaults.shared.importPropertyList(Data(contentsOf: file), replacing: false)
  /// ```
  ///
  /// - Parameters:
  ///   - list: A property list of any format whose outermost value is a dictionary.
  ///   - replacing: Whether keys that have a value get the new one.
  ///   - dataHoldsJSON: Whether data in the list that is JSON is stored as the value that the JSON
  ///     describes. PropertyKit stores most types in this form.
  /// - Returns: The keys that were stored.
  /// - Throws: ``DefaultsError/Code/propertyList``; `StoreError`.
  @discardableResult
  public func importPropertyList(
    _ list: Data, replacing: Bool = true, dataHoldsJSON: Bool = false
  ) throws -> [String] {
    try store(try Self.values(list), replacing, dataHoldsJSON, mark: nil) ?? []
  }

  /// Imports a suite of `UserDefaults` once: the first call in any process imports it. Later calls
  /// have no effect, even if keys were removed here.
  ///
  /// ```swift
  /// try Defaults.shared.migrate(fromUserDefaults: "com.example.player", dataHoldsJSON: true)
  /// ```
  ///
  /// Keys that already have a value here keep it. The old suite is unchanged.
  ///
  /// - Parameters:
  ///   - name: The name of the suite, or the domain of a program.
  ///   - dataHoldsJSON: See ``importPropertyList(_:replacing:dataHoldsJSON:)``.
  /// - Returns: The stored keys, or `nil` if the suite was imported before.
  /// - Throws: The errors of ``importPropertyList(_:replacing:dataHoldsJSON:)``; nothing is stored
  ///   in that case.
  @discardableResult
  public func migrate(
    fromUserDefaults name: String, dataHoldsJSON: Bool = false
  ) throws -> [String]? {
    let domain = UserDefaults.standard.persistentDomain(forName: name) ?? [:]
    let list: Data
    do {
      list = try PropertyListSerialization.data(
        fromPropertyList: domain, format: .binary, options: 0)
    } catch {
      throw DefaultsError(
        .propertyList, "The suite \"\(name)\" cannot be read: \(error).", underlyingError: error)
    }
    return try store(try Self.values(list), false, dataHoldsJSON, mark: name)
  }

  private static func values(_ list: Data) throws -> [String: PropertyListValue] {
    if let rejectionReason = PropertyListDepthLimit.rejectionReason(to: Array(list)) {
      throw DefaultsError(
        .propertyList, "The property list \(rejectionReason). Nothing was stored.")
    }
    do {
      return try PropertyListValue.values(of: list)
    } catch {
      throw DefaultsError(
        .propertyList,
        "The data is not a property list of a dictionary (\(error)). Nothing was stored.",
        underlyingError: error)
    }
  }

  /// Stores values unless the suite `mark` was imported before.
  private func store(
    _ values: [String: PropertyListValue], _ replacing: Bool, _ dataHoldsJSON: Bool, mark: String?
  ) throws -> [String]? {
    let suite = try state.get()
    let encoded = try values.sorted { $0.key < $1.key }.map { key, value in
      (key: key, content: try value.content(key: key, dataHoldsJSON: dataHoldsJSON))
    }
    return try suite.write { transaction in
      if let mark, try !transaction.markImport(of: mark) { return nil }
      var done: [String] = []
      for (name, content) in encoded {
        if !replacing, try transaction.entry(name) != nil { continue }
        try transaction.put(content, name)
        done.append(name)
      }
      return done
    }
  }
}
