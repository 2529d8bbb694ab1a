// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding

/// The path to a property: the names of fields, from the outermost to the innermost.
package struct FieldPath: Sendable, Hashable, CustomStringConvertible {
  package let names: [String]
  /// Whether the last name counts a dictionary. If its keys are not strings or integers, it is stored as
  /// an array of keys and values in turn.
  var countsDictionary = false

  package init(_ names: [String]) { self.names = names }

  package var description: String {
    names.map { name in
      let isPlain =
        name.first.map { $0 == "_" || $0.isLetter } ?? false
        && name.allSatisfy { $0 == "_" || $0.isLetter || $0.isNumber }
        && !QueryToken.keywords.contains(name)
      return isPlain ? name : "`\(name.split(separator: "`").joined(separator: "\\`"))`"
    }.joined(separator: ".")
  }

  /// Returns the value of the property, or `nil` if the object has none.
  ///
  /// `count` and `isEmpty` of a value without such a field refer to its elements, characters or
  /// bytes.
  package func value(in object: CBORValue) -> CBORValue? {
    var value = object
    for name in names {
      value = FollowedReference(value)?.object ?? value.untagged
      switch value {
      case .map(let pairs):
        if let found = pairs.first(where: { $0.key == .text(name) }) {
          value = found.value
        } else if let counted = Self.counted(name, pairs.count) {
          value = counted
        } else {
          return nil
        }
      case .array(let values):
        let count = countsDictionary ? values.count / 2 : values.count
        guard let counted = Self.counted(name, count) else { return nil }
        value = counted
      case .text(let text):
        guard let counted = Self.counted(name, text.count) else { return nil }
        value = counted
      case .bytes(let bytes):
        guard let counted = Self.counted(name, bytes.count) else { return nil }
        value = counted
      default: return nil
      }
    }
    return FollowedReference(value)?.id ?? value
  }

  private static func counted(_ name: String, _ count: Int) -> CBORValue? {
    switch name {
    case "count": .unsigned(UInt64(count))
    case "isEmpty": .boolean(count == 0)
    default: nil
    }
  }
}

extension CBORValue {
  /// The item without its tags.
  var untagged: CBORValue {
    var value = self
    while case .tagged(_, let content) = value { value = content }
    return value
  }
}
