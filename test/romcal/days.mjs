// Prints the days of romcal, one JSON line a day: node days.mjs CALENDAR FROM TO
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const romcal = require('romcal');
const Romcal = romcal.default ?? romcal;

// Each calendar with the choices of its conference of bishops as the daemon's own files have them.
const calendars = {
  'general-roman': ['@romcal/calendar.general-roman', 'GeneralRoman_En', false, false, false],
  ireland: ['@romcal/calendar.ireland', 'Ireland_En', false, true, true],
  malta: ['@romcal/calendar.malta', 'Malta_En', true, true, true],
  'united-states': ['@romcal/calendar.united-states', 'UnitedStates_En', true, true, true],
};

const [name, from, to] = process.argv.slice(2);
const [pkg, bundle, epiphanyOnSunday, ascensionOnSunday, corpusChristiOnSunday] = calendars[name];
const calendar = new Romcal({
  localizedCalendar: require(pkg)[bundle], epiphanyOnSunday, ascensionOnSunday, corpusChristiOnSunday, scope: 'gregorian',
});
for (let year = Number(from); year <= Number(to); year++) {
  const days = await calendar.generateCalendar(year);
  let text = '';
  for (const date of Object.keys(days).sort()) {
    const first = days[date][0];
    text += JSON.stringify({
      date, seasons: first.seasons, week: first.calendar.weekOfSeason, sunday: first.cycles.sundayCycle, weekday: first.cycles.weekdayCycle,
      psalter: first.cycles.psalterWeek,
      celebrations: days[date].map((c) => ({ id: c.id, rank: c.rank, precedence: c.precedence, colours: c.colors, optional: c.isOptional, calendar: c.fromCalendarId })),
    }) + '\n';
  }
  process.stdout.write(text);
}
