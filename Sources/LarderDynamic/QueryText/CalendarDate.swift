// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The sum of the whole seconds and the fraction rounds only once, so the result is the exact date.

/// A parser of dates in the format of RFC 3339, with or without a time.
package enum CalendarDate {
  /// Returns the seconds since 2001 of a date, or `nil` if the text is not a date. Without an
  /// offset, the time is UTC.
  package static func seconds(_ text: String) -> Double? {
    var rest = Substring(text)
    guard
      let year = digits(&rest, 4), drop(&rest, "-"), let month = digits(&rest, 2),
      drop(&rest, "-"), let day = digits(&rest, 2),
      (1...12).contains(month), (1...days(in: month, of: year)).contains(day)
    else { return nil }
    var seconds = dayNumber(year, month, day) * 86_400
    var fraction = 0.0
    if rest.isEmpty { return Double(seconds) }
    guard
      drop(&rest, "T") || drop(&rest, "t"), let hour = digits(&rest, 2), drop(&rest, ":"),
      let minute = digits(&rest, 2), hour < 24, minute < 60
    else { return nil }
    seconds += hour * 3600 + minute * 60
    if drop(&rest, ":") {
      guard let second = digits(&rest, 2), second < 60 else { return nil }
      seconds += second
      if drop(&rest, ".") {
        let digits = rest.prefix { $0.isASCII && $0.isNumber }
        guard !digits.isEmpty, let part = Double("0.\(digits)") else { return nil }
        fraction = part
        rest = rest.dropFirst(digits.count)
      }
    }
    if rest.isEmpty || drop(&rest, "Z") || drop(&rest, "z") {
      return rest.isEmpty ? Double(seconds) + fraction : nil
    }
    let isAhead = rest.first == "+"
    guard
      drop(&rest, "+") || drop(&rest, "-"), let hours = digits(&rest, 2), drop(&rest, ":"),
      let minutes = digits(&rest, 2), hours < 24, minutes < 60, rest.isEmpty
    else { return nil }
    let offset = hours * 3600 + minutes * 60
    return Double(isAhead ? seconds - offset : seconds + offset) + fraction
  }

  private static func digits(_ text: inout Substring, _ count: Int) -> Int? {
    let part = text.prefix(count)
    guard part.count == count, part.allSatisfy({ ("0"..."9").contains($0) }) else { return nil }
    text = text.dropFirst(count)
    return Int(part)
  }

  private static func drop(_ text: inout Substring, _ character: Character) -> Bool {
    guard text.first == character else { return false }
    text = text.dropFirst()
    return true
  }

  private static func days(in month: Int, of year: Int) -> Int {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// Returns the days since 2001-01-01 in the Gregorian calendar. Years begin in March, so that the
  /// leap day is the last day of a year.
  private static func dayNumber(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let shifted = month > 2 ? year : year - 1
    let monthFromMarch = month > 2 ? month - 3 : month + 9
    let leapDays = shifted / 4 - shifted / 100 + shifted / 400
    return shifted * 365 + leapDays + (monthFromMarch * 153 + 2) / 5 + day - 1 - 730_791
  }
}
