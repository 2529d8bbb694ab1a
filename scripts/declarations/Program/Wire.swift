// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A type of properties, with its values in messages.
protocol Wire {
  init(_ value: Value)
  var wire: Value { get }
}

private func unexpected(_ value: Value, _ type: Any.Type) -> Never {
  fatalError("no \(type): \(value)")
}

extension Int: Wire {
  init(_ value: Value) {
    guard case .int(let number) = value else { unexpected(value, Self.self) }
    self = number
  }
  var wire: Value { .int(self) }
}

extension Int16: Wire {
  init(_ value: Value) { self = Int16(Int(value)) }
  var wire: Value { .int(Int(self)) }
}

extension Double: Wire {
  init(_ value: Value) {
    guard case .double(let number) = value else { unexpected(value, Self.self) }
    self = number
  }
  var wire: Value { .double(self) }
}

extension Bool: Wire {
  init(_ value: Value) {
    guard case .bool(let flag) = value else { unexpected(value, Self.self) }
    self = flag
  }
  var wire: Value { .bool(self) }
}

extension String: Wire {
  init(_ value: Value) {
    guard case .text(let text) = value else { unexpected(value, Self.self) }
    self = text
  }
  var wire: Value { .text(self) }
}

extension Date: Wire {
  init(_ value: Value) {
    guard case .date(let seconds) = value else { unexpected(value, Self.self) }
    self.init(timeIntervalSinceReferenceDate: seconds)
  }
  var wire: Value { .date(timeIntervalSinceReferenceDate) }
}

extension UUID: Wire {
  init(_ value: Value) {
    guard case .uuid(let text) = value else { unexpected(value, Self.self) }
    self.init(uuidString: text)!
  }
  var wire: Value { .uuid(uuidString) }
}

extension Decimal: Wire {
  init(_ value: Value) {
    guard case .decimal(let text) = value else { unexpected(value, Self.self) }
    self.init(string: text, locale: Locale(identifier: "en_US_POSIX"))!
  }
  var wire: Value { .decimal("\(self)") }
}

extension Data: Wire {
  init(_ value: Value) {
    guard case .data(let bytes) = value else { unexpected(value, Self.self) }
    self.init(bytes)
  }
  var wire: Value { .data(Array(self)) }
}

extension Optional: Wire where Wrapped: Wire {
  init(_ value: Value) { self = value == .null ? nil : Wrapped(value) }
  var wire: Value { map(\.wire) ?? .null }
}

extension Array: Wire where Element: Wire {
  init(_ value: Value) {
    guard case .list(let values) = value else { unexpected(value, Self.self) }
    self = values.map(Element.init)
  }
  var wire: Value { .list(map(\.wire)) }
}

extension Dictionary: Wire where Key == String, Self.Value: Wire {
  init(_ value: App.Value) {
    guard case .map(let values) = value else { unexpected(value, Self.self) }
    self = values.mapValues(Self.Value.init)
  }
  var wire: App.Value { .map(mapValues(\.wire)) }
}

extension RawRepresentable where Self: Wire, RawValue: Wire {
  init(_ value: Value) { self.init(rawValue: RawValue(value))! }
  var wire: Value { rawValue.wire }
}
