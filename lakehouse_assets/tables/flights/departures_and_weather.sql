select
  f.origin,
  to_date(f.scheduled_departure_at) as day,
  count(*) as flights,
  count(f.departed_at) as departures,
  count_if(f.status = 'cancelled') as cancelled,
  avg(f.departure_delay_min) as delay_mean_min,
  max(f.departure_delay_min) as delay_max_min,
  avg(w.wind_speed_m_s) as wind_mean_m_s,
  avg(w.precipitation_mm) as precipitation_mean_mm,
  min(w.visibility_km) as visibility_min_km
from silver_flights as f
left join silver_weather as w
  on w.origin = f.origin
  and w.time_hour = date_trunc('hour', f.scheduled_departure_at)
group by f.origin, to_date(f.scheduled_departure_at)
