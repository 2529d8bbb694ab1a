// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// FORMS OF AN ELEMENT
//
// A key of an index consists of the elements of its properties (`IndexKeyEncoder.swift`). An element
// has one of these forms, whose name follows that of the property's type in the definition:
//
//     -                 the element of the value
//     ignoring case     the element of the lowercase string
//     descending        the element with complemented bytes, so that greater values come first. The
//                       first byte, a type code, is 0xFE minus the code: 0xFF stays greater than
//                       every element, and the absence of a value, 00, becomes FE. After an
//                       element that ends with a zero byte follows 01: the end of "a", 00, becomes
//                       FF, and "a\0" continues with 00 FF there, so it must come first.
//
// An element is the beginning of another only before a zero byte of a string or of bytes, so complemented
// elements have the reverse order.

/// The form of a property in the keys of an index.
package struct IndexKeyForm: Sendable, Hashable {
  package var isDescending = false
  package var ignoresCase = false

  package init(isDescending: Bool = false, ignoresCase: Bool = false) {
    self.isDescending = isDescending
    self.ignoresCase = ignoresCase
  }

  /// The text after the type of the property.
  package var suffix: String {
    (ignoresCase ? " ignoring case" : "") + (isDescending ? " descending" : "")
  }

  /// Splits the text of a type and a form.
  ///
  /// - Parameter text: The text; receives that of the type alone.
  package init(removingFrom text: inout String) {
    func remove(_ suffix: String) -> Bool {
      guard text.hasSuffix(suffix) else { return false }
      text.removeLast(suffix.count)
      return true
    }
    isDescending = remove(" descending")
    ignoresCase = remove(" ignoring case")
  }

  /// Returns the bytes of an element in reverse order.
  package static func complement(_ element: [UInt8]) -> [UInt8] {
    guard let code = element.first else { return [] }
    let rest = element.dropFirst().map { ~$0 }
    return [0xFE - code] + (rest.last == 0xFF ? rest + [0x01] : rest)
  }
}
